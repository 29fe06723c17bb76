"""`headrace queues`: list, show, pause, resume, configure, purge and delete queues."""

from headrace.cli.options import command_group
from headrace.cli.queues.configure import configure, pause, resume
from headrace.cli.queues.delete import delete, purge
from headrace.cli.queues.list import list_command, show

commands = command_group(
    list=list_command, show=show, pause=pause, resume=resume, configure=configure, purge=purge, delete=delete
)

__all__ = ["commands"]
