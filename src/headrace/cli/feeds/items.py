"""`headrace feeds items`, `retract` and `move`: what a feed holds, and in which order."""

from typing import Annotated

import typer

from headrace.cli.bulk import StepTally, batches, telling, words
from headrace.cli.exit_codes import NO, OK
from headrace.cli.feeds.options import Name, ReadName, Tenant, feed_of, instance, writable
from headrace.cli.feeds.position import After, Before, First, Last, chosen_place, place_text, refusal
from headrace.cli.options import TENANT, Json, Limit, Url
from headrace.cli.output import Output, one_line
from headrace.cli.parse import ago, instants
from headrace.cli.render import carried
from headrace.cli.store_access import with_store
from headrace.model.errors import Refused
from headrace.model.feed import FeedName, Item, Move
from headrace.model.limits import PAGE_MAX
from headrace.model.results import Moved, Retracted
from headrace.stores.contract.store import Store

SomeIds = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Only these items.")]
Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="The items.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="The item.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on where the list before ended.")]


def items(
    name: ReadName,
    ids: SomeIds = None,
    url: Url = None,
    tenant: Tenant = TENANT,
    limit: Limit = 20,
    cursor: Cursor = None,
    json: Json = False,
) -> int:
    """Show items of a feed in their order, or those that are named. Exits with 1 when one that is named is not there.

    A terminal shows as much of each item as fits into the line; --json shows all of it.
    """
    output, feed = Output(json=json), FeedName(name, tenant)
    if ids and cursor is not None:
        raise Refused("bad_choice", "items are listed from a cursor on or named by their ids, not both; leave one out")

    async def look(store: Store) -> tuple[list[Item], str | None, int]:
        await feed_of(store, tenant, name)
        now_ms = await store.now_ms()
        if ids:
            return await _named(store, feed, ids), None, now_ms
        return *await _page(store, feed, cursor, limit), now_ms

    rows, following, now_ms = with_store(url, look)
    missing = [id for id in dict.fromkeys(ids or []) if id not in {row.id for row in rows}]
    found = [{"id": row.id, "item": carried(row.item), **instants(at_ms=row.at_ms)} for row in rows]
    output.document({"feed": name, "tenant": tenant, "items": found, "missing": missing, "cursor": following})
    cells = [(one_line(row.id), ago(row.at_ms, now_ms), item_text(row.item)) for row in rows]
    if cells or not missing:
        output.table(("id", "changed", "item"), cells, empty="no items" if cursor is None else "no more items")
    for id in missing:
        output.hint(f"there is no item {id!r}")
    if following is not None:
        output.hint(f"more follow: --cursor {following}")
    return NO if missing else OK


def item_text(encoded: bytes) -> str:
    """An item in one line: JSON as it is, other bytes by their size and beginning."""
    try:
        return one_line(encoded.decode())
    except UnicodeDecodeError:
        return f"{len(encoded):,} bytes that are no text: {encoded[:64]!r}{'…' if len(encoded) > 64 else ''}"


async def _named(store: Store, feed: FeedName, ids: list[str]) -> list[Item]:
    found: list[Item] = []
    for part in batches([*dict.fromkeys(ids)]):
        found += [item for item in await store.items.find(feed, part) if item is not None]
    return found


async def _page(store: Store, feed: FeedName, cursor: str | None, limit: int) -> tuple[list[Item], str | None]:
    """The next `limit` items, fewer at the end only: a page of the store may end before."""
    found: list[Item] = []
    while True:
        page = await store.items.list(feed, cursor=cursor, limit=min(limit - len(found), PAGE_MAX))
        found += page.rows
        cursor = page.cursor
        if cursor is None or len(found) == limit:
            return found, cursor


def retract(name: Name, ids: Ids, url: Url = None, tenant: Tenant = TENANT, json: Json = False) -> int:
    """Retract items: take them out of a feed. Exits with 1 when one of them is not there."""
    output, feed, tally = Output(json=json), writable(name, tenant), StepTally()

    async def take_out(store: Store) -> list[Retracted]:
        await feed_of(store, tenant, name)
        answers: list[Retracted] = []
        with telling(tally):
            for part in batches([*dict.fromkeys(ids)]):
                answers += await store.items.retract(feed, part, instance=instance())
                tally.add(answer.status for answer in answers[-len(part) :])
        return answers

    answers = with_store(url, take_out)
    output.document({"feed": name, "tenant": tenant, "statuses": dict(tally.statuses), "items": answers})
    output.table(("id", "now"), [(one_line(answer.id), words(answer.status)) for answer in answers], empty="")
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
    """Move an item of a sorted feed: --before or --after another, --first or --last."""
    output, feed = Output(json=json), writable(name, tenant)
    place = chosen_place(before, after, first, last)
    if place is None:
        raise Refused("bad_position", "nothing says where to; give --before ID, --after ID, --first or --last")

    async def put(store: Store) -> Moved:
        await feed_of(store, tenant, name)
        [answer] = await store.items.move(feed, [Move(id, place)], instance=instance())
        if answer.status not in ("moved", "unchanged"):
            raise refusal(feed, answer.status, id, place)
        return answer

    answer = with_store(url, put)
    output.document({"feed": name, "tenant": tenant, "id": id, "status": answer.status})
    told = "was moved" if answer.status == "moved" else "stands there already"
    output.say(f"item {one_line(id)} {told}: {place_text(place)}")
