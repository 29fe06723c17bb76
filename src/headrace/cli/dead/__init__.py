"""`headrace dead`: list, show, replay and purge dead letters."""

from headrace.cli.dead.list import list_command, show
from headrace.cli.dead.replay import purge, replay
from headrace.cli.options import command_group

commands = command_group(list=list_command, show=show, replay=replay, purge=purge)

__all__ = ["commands"]
