"""`headrace jobs`: list, search, show, result, cancel and remove, a module each."""

from headrace.cli.jobs.cancel import cancel
from headrace.cli.jobs.list import list_command
from headrace.cli.jobs.remove import remove
from headrace.cli.jobs.result import result
from headrace.cli.jobs.search import search
from headrace.cli.jobs.show import show
from headrace.cli.options import command_group

commands = command_group(list=list_command, search=search, show=show, result=result, cancel=cancel, remove=remove)

__all__ = ["commands"]
