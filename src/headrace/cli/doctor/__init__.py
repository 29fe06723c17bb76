"""`headrace doctor`: checks the store and everything in it, and repairs it on request."""

from headrace.cli.doctor.command import command

__all__ = ["command"]
