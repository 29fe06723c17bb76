"""`headrace queues`: what queues hold and how they are set; pause, resume, purge, configure and delete them."""

import typer

from headrace.cli.queues.configure import configure, pause, resume
from headrace.cli.queues.delete import delete, purge
from headrace.cli.queues.list import list_queues
from headrace.cli.queues.show import show

commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
commands.command("list")(list_queues)
commands.command("show")(show)
commands.command("pause")(pause)
commands.command("resume")(resume)
commands.command("configure")(configure)
commands.command("purge")(purge)
commands.command("delete")(delete)

__all__ = ["commands"]
