"""`headrace feeds`: what feeds hold and what changes in them; create, configure, fill, sort and delete them."""

import typer

from headrace.cli.feeds.configure import configure, create, delete
from headrace.cli.feeds.items import items, move, retract
from headrace.cli.feeds.list import list_feeds
from headrace.cli.feeds.publish import publish
from headrace.cli.feeds.tail import tail

commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
commands.command("list")(list_feeds)
commands.command("create")(create)
commands.command("configure")(configure)
commands.command("delete")(delete)
commands.command("publish")(publish)
commands.command("items")(items)
commands.command("retract")(retract)
commands.command("move")(move)
commands.command("tail")(tail)

__all__ = ["commands"]
