"""`headrace jobs`: list, search, show, result, cancel and remove jobs."""

from headrace.cli.jobs.cancel import cancel, remove
from headrace.cli.jobs.list import list_command, search
from headrace.cli.jobs.show import result, show
from headrace.cli.options import command_group

commands = command_group(list=list_command, search=search, show=show, result=result, cancel=cancel, remove=remove)

__all__ = ["commands"]
