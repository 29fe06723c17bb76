"""`headrace dead`: list, show, replay and purge, a module each."""

from headrace.cli.dead.list import list_command
from headrace.cli.dead.purge import purge
from headrace.cli.dead.replay import replay
from headrace.cli.dead.show import show
from headrace.cli.options import command_group

commands = command_group(list=list_command, show=show, replay=replay, purge=purge)

__all__ = ["commands"]
