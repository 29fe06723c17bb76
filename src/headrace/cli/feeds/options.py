"""Options of the commands about feeds, positions of items, and refusals of items as sentences."""

import os
import socket
from typing import Annotated

import typer

from headrace.cli.output import one_line
from headrace.model.errors import Refused
from headrace.model.feed import FIRST, LAST, FeedName, ItemPosition, check_writable
from headrace.model.validate import cut

Name = Annotated[str, typer.Argument(metavar="NAME", help="Feed to use.")]
ReadName = Annotated[str, typer.Argument(metavar="NAME", help="Feed to read; '*' is the directory of all feeds.")]
Before = Annotated[str | None, typer.Option("--before", metavar="ID", help="Put the item before this one.")]
After = Annotated[str | None, typer.Option("--after", metavar="ID", help="Put the item after this one.")]
First = Annotated[bool, typer.Option("--first", help="Put the item first; an item queue hands it out next.")]
Last = Annotated[bool, typer.Option("--last", help="Put the item last.")]


def instance() -> str:
    """The instance that a command gives as the author of its changes."""
    return f"{socket.gethostname()[:64]}:{os.getpid()}:cli"


def writable_feed(name: str, tenant: str) -> FeedName:
    """The name of a writable feed; refuses the directory."""
    feed = FeedName(name, tenant)
    check_writable(feed)
    return feed


def choose_position(before: str | None, after: str | None, first: bool, last: bool = False) -> ItemPosition | None:
    """The position that these options set, if any; refuses two."""
    positions = {
        "--before": None if before is None else ItemPosition("before", before),
        "--after": None if after is None else ItemPosition("after", after),
        "--first": FIRST if first else None,
        "--last": LAST if last else None,
    }
    chosen = {option: position for option, position in positions.items() if position is not None}
    if len(chosen) > 1:
        raise Refused("bad_position", f"an item has one position; found {' and '.join(chosen)}; give one")
    return next(iter(chosen.values()), None)


def position_text(position: ItemPosition) -> str:
    """A position for people."""
    return position.where if position.id is None else f"{position.where} {one_line(position.id)}"


def item_refusal(feed: FeedName, status: str, id: str | None, position: ItemPosition) -> Refused:
    """The refusal of an item as an error that says what to do."""
    look = f"see its items with: headrace feeds items {feed.name}"
    causes = {
        "known": f"already holds item {_cut_id(id)}; choose another id, or retract that item first",
        "unknown": f"has no item {_cut_id(id)}; {look}",
        "unknown_neighbour": f"has no item {_cut_id(position.id)} to place another {position.where}; {look}",
        "full": f"is full; make room, or raise its bound with: headrace feeds configure {feed.name} items_max=…",
    }
    return Refused(status, f"{feed.name!r} {causes[status]}")


def _cut_id(id: str | None) -> str:
    return repr(cut(id or ""))
