"""`headrace feeds`: what feeds hold and what changes in them; create, configure, fill, sort and delete them."""

import typer

from headrace.cli.feeds import changing, items, listing, publishing, tail

commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
commands.command("list")(listing.list_feeds)
commands.command("create")(changing.create)
commands.command("configure")(changing.configure)
commands.command("delete")(changing.delete)
commands.command("publish")(publishing.publish)
commands.command("items")(items.items)
commands.command("retract")(items.retract)
commands.command("move")(items.move)
commands.command("tail")(tail.tail)

__all__ = ["commands"]
