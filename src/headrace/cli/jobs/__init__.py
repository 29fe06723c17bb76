"""`headrace jobs`: list, search, show, result, cancel and remove, a module each."""

from headrace.cli.jobs.cancel import cancel
from headrace.cli.jobs.group import commands
from headrace.cli.jobs.list import list_jobs
from headrace.cli.jobs.remove import remove
from headrace.cli.jobs.result import result
from headrace.cli.jobs.search import search
from headrace.cli.jobs.show import show

__all__ = ["cancel", "commands", "list_jobs", "remove", "result", "search", "show"]
