"""`headrace jobs`: list, search, show, result, cancel and remove, a module each."""

from headrace.cli.jobs import cancelling, listing, removing, result, searching, showing
from headrace.cli.jobs.group import commands

__all__ = ["cancelling", "commands", "listing", "removing", "result", "searching", "showing"]
