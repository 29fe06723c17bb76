"""`headrace feeds items`, `retract` and `move`: shows, removes and sorts the items of a feed."""

from typing import Annotated

import typer

from headrace.cli.bulk import StatusTally, batches, keep_tally, status_text
from headrace.cli.exit_codes import NO, OK
from headrace.cli.feeds.options import (
    After,
    Before,
    First,
    Last,
    Name,
    ReadName,
    choose_position,
    instance,
    item_refusal,
    position_text,
    writable_feed,
)
from headrace.cli.options import TENANT, Cursor, Json, Limit, Tenant, Url
from headrace.cli.output import Output, one_line
from headrace.cli.store_access import with_store
from headrace.inspect.feeds import feed_of
from headrace.inspect.views import encoded_view
from headrace.model.errors import Refused
from headrace.model.feed import FeedName, Item, Move
from headrace.model.limits import PAGE_MAX
from headrace.model.results import Moved, Retracted
from headrace.model.times import ago_text, instant_text
from headrace.stores.contract.store import Store

SomeIds = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Items to show; all by default.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Items to retract.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="Item to move.")]


def items(
    name: ReadName,
    ids: SomeIds = None,
    url: Url = None,
    tenant: Tenant = TENANT,
    limit: Limit = 20,
    cursor: Cursor = None,
    json: Json = False,
) -> int:
    """Show the items of a feed in their order, or only some.

    A terminal shows as much of an item as fits into the line; --json shows all of it. Exits with 1 if a named item does
    not exist.

    Example: headrace feeds items news --limit 5
    """
    output, feed = Output(json=json), FeedName(name, tenant)
    if ids and cursor is not None:
        raise Refused("bad_choice", "--cursor pages through all items and ids select some; give one of the two")

    async def look(store: Store) -> tuple[list[Item], str | None, int]:
        await feed_of(store, tenant, name)
        now_ms = await store.now_ms()
        if ids:
            return await _named(store, feed, ids), None, now_ms
        return *await _page(store, feed, cursor, limit), now_ms

    rows, following, now_ms = with_store(url, look)
    missing = [id for id in dict.fromkeys(ids or []) if id not in {row.id for row in rows}]
    found = [
        {"id": row.id, "item": encoded_view(row.item), "at": instant_text(row.at_ms), "at_ms": row.at_ms}
        for row in rows
    ]
    output.document({"feed": name, "tenant": tenant, "items": found, "missing": missing, "cursor": following})
    cells = [(one_line(row.id), ago_text(row.at_ms, now_ms), item_text(row.item)) for row in rows]
    if cells or not missing:
        output.table(("id", "changed", "item"), cells, empty="no items" if cursor is None else "no more items")
    for id in missing:
        output.hint(f"there is no item {id!r}")
    if following is not None:
        output.hint(f"more follow: --cursor {following}")
    return NO if missing else OK


def item_text(encoded: bytes) -> str:
    """An item in one line: its JSON, or the size and beginning of other bytes."""
    try:
        return one_line(encoded.decode())
    except UnicodeDecodeError:
        return f"{len(encoded):,} bytes that are not text: {encoded[:64]!r}{'…' if len(encoded) > 64 else ''}"


async def _named(store: Store, feed: FeedName, ids: list[str]) -> list[Item]:
    found: list[Item] = []
    for part in batches([*dict.fromkeys(ids)]):
        found += [item for item in await store.items.find(feed, part) if item is not None]
    return found


async def _page(store: Store, feed: FeedName, cursor: str | None, limit: int) -> tuple[list[Item], str | None]:
    """The next `limit` items, fewer only at the end: a page of the store may be shorter."""
    found: list[Item] = []
    while True:
        page = await store.items.list(feed, cursor=cursor, limit=min(limit - len(found), PAGE_MAX))
        found += page.rows
        cursor = page.cursor
        if cursor is None or len(found) == limit:
            return found, cursor


def retract(name: Name, ids: Ids, url: Url = None, tenant: Tenant = TENANT, json: Json = False) -> int:
    """Retract items from a feed. Exits with 1 if one does not exist.

    Example: headrace feeds retract news launch
    """
    output, feed, tally = Output(json=json), writable_feed(name, tenant), StatusTally()

    async def take_items(store: Store) -> list[Retracted]:
        await feed_of(store, tenant, name)
        answers: list[Retracted] = []
        with keep_tally(tally):
            for part in batches([*dict.fromkeys(ids)]):
                answers += await store.items.retract(feed, part, instance=instance())
                tally.add(answer.status for answer in answers[-len(part) :])
        return answers

    answers = with_store(url, take_items)
    output.document({"feed": name, "tenant": tenant, "statuses": dict(tally.statuses), "items": answers})
    output.table(("id", "now"), [(one_line(answer.id), status_text(answer.status)) for answer in answers], empty="")
    return NO if tally.statuses["not_found"] else OK


def move(
    name: Name,
    id: Id,
    before: Before = None,
    after: After = None,
    first: First = False,
    last: Last = False,
    url: Url = None,
    tenant: Tenant = TENANT,
    json: Json = False,
) -> None:
    """Move an item of a sorted feed.

    Example: headrace feeds move board b --before a
    """
    output, feed = Output(json=json), writable_feed(name, tenant)
    position = choose_position(before, after, first, last)
    if position is None:
        raise Refused("bad_position", "the position is missing; give --before ID, --after ID, --first or --last")

    async def put(store: Store) -> Moved:
        await feed_of(store, tenant, name)
        [answer] = await store.items.move(feed, [Move(id, position)], instance=instance())
        if answer.status not in ("moved", "unchanged"):
            raise item_refusal(feed, answer.status, id, position)
        return answer

    answer = with_store(url, put)
    output.document({"feed": name, "tenant": tenant, "id": id, "status": answer.status})
    outcome = "was moved" if answer.status == "moved" else "is already there"
    output.say(f"item {one_line(id)} {outcome}: {position_text(position)}")
