"""`headrace doctor`: how the store is and everything in it, what to fix, and fixing it."""

from headrace.cli.doctor.command import command

__all__ = ["command"]
