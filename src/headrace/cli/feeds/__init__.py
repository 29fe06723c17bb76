"""`headrace feeds`: list, create, configure, fill, sort, follow and delete feeds."""

from headrace.cli.feeds.configure import configure, create, delete
from headrace.cli.feeds.items import items, move, retract
from headrace.cli.feeds.list import list_command
from headrace.cli.feeds.publish import publish
from headrace.cli.feeds.tail import tail
from headrace.cli.options import command_group

commands = command_group(
    list=list_command,
    create=create,
    configure=configure,
    delete=delete,
    publish=publish,
    items=items,
    retract=retract,
    move=move,
    tail=tail,
)

__all__ = ["commands"]
