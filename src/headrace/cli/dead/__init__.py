"""`headrace dead`: list, show, replay and purge, a module each."""

from headrace.cli.dead import listing, purging, replaying, showing
from headrace.cli.dead.group import commands

__all__ = ["commands", "listing", "purging", "replaying", "showing"]
