"""`headrace queues`: what queues hold and how they are set; pause, resume, purge, configure and delete them."""

import typer

from headrace.cli.queues import changing, ending, listing, showing

commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
commands.command("list")(listing.list_queues)
commands.command("show")(showing.show)
commands.command("pause")(changing.pause)
commands.command("resume")(changing.resume)
commands.command("configure")(changing.configure)
commands.command("purge")(ending.purge)
commands.command("delete")(ending.delete)

__all__ = ["commands"]
