"""`headrace dead`: list, show, replay and purge, a module each."""

from headrace.cli.dead.group import commands
from headrace.cli.dead.list import list_dead_letters
from headrace.cli.dead.purge import purge
from headrace.cli.dead.replay import replay
from headrace.cli.dead.show import show

__all__ = ["commands", "list_dead_letters", "purge", "replay", "show"]
