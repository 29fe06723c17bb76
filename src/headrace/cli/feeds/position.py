"""Places as people say them, and what became of an item: refusals as sentences."""

from typing import Annotated

import typer

from headrace.cli.output import one_line
from headrace.model.errors import Refused
from headrace.model.feed import FIRST, LAST, FeedName, ItemPosition
from headrace.model.validate import cut

Before = Annotated[str | None, typer.Option("--before", metavar="ID", help="Put it before this item.")]
After = Annotated[str | None, typer.Option("--after", metavar="ID", help="Put it behind this item.")]
First = Annotated[bool, typer.Option("--first", help="Put it first; in a plain queue it is taken next.")]
Last = Annotated[bool, typer.Option("--last", help="Put it last.")]


def chosen_place(before: str | None, after: str | None, first: bool, last: bool = False) -> ItemPosition | None:
    """The place that was named, None when none was; refuses two."""
    named = {
        "--before": None if before is None else ("before", before),
        "--after": None if after is None else ("after", after),
        "--first": ("first", None) if first else None,
        "--last": ("last", None) if last else None,
    }
    given = [option for option, place in named.items() if place is not None]
    if len(given) > 1:
        raise Refused("bad_position", f"an item has one place; found {' and '.join(given)}; give one of them")
    if before is not None:
        return ItemPosition("before", before)
    if after is not None:
        return ItemPosition("after", after)
    return FIRST if first else LAST if last else None


def place_text(place: ItemPosition) -> str:
    """A place for people."""
    return place.where if place.id is None else f"{place.where} {one_line(place.id)}"


def refusal(feed: FeedName, status: str, id: str | None, place: ItemPosition) -> Refused:
    """What a person is told of an item that the feed would not have."""
    look = f"see what is there with: headrace feeds items {feed.name}"
    told = {
        "known": f"holds item {_shown(id)} already; choose another id, or retract that one first",
        "unknown": f"has no item {_shown(id)}; {look}",
        "unknown_neighbour": f"has no item {_shown(place.id)} to put another {place.where}; {look}",
        "full": f"is full; make room, or raise its bound with: headrace feeds configure {feed.name} items_max=…",
    }
    return Refused(status, f"{feed.name!r} {told[status]}")


def _shown(id: str | None) -> str:
    return repr(cut(id or ""))
