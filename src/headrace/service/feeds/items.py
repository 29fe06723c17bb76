"""Publishes, finds, moves, retracts and takes items of feeds, and reads what has changed."""

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.clock import monotonic_ms
from headrace.model.limits import BATCH_MAX, PAGE_MAX, POLL_MS_MAX
from headrace.model.names import RANDOM_BYTES, random_bytes, uuid7
from headrace.model.results import ItemsSnapshot, Retracted
from headrace.model.validate import check_batch, check_int
from headrace.service.caller import RESERVED_PREFIX
from headrace.service.cursors import read_page_cursor, write_page_cursor
from headrace.service.feeds.names import cursor_of, instance_of, path_feed, unknown_feed
from headrace.service.jobs.claim import wait_ends
from headrace.service.operation import Call, Operation, PageQuery, Reply, get, post, scopes
from headrace.service.polls import first_of
from headrace.wire.feeds import (
    ChangedAnswer,
    ChangedBody,
    ChangesAnswer,
    FoundItems,
    ItemAnswer,
    ItemRows,
    ItemsAnswer,
    MoveAnswer,
    MoveBody,
    PublishAnswer,
    PublishBody,
    RetractAnswer,
    TakeBody,
)
from headrace.wire.jobs import IdsBody


class ChangesQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Where to continue in the log of a feed."""

    after: str | None = None
    limit: int = 100


async def publish(call: Call) -> Reply:
    """Publish items; an item of a feed without an id gets a new one."""
    body: PublishBody = call.body
    check_batch("items", len(body.items), BATCH_MAX)
    name = path_feed(call)
    publications = [each.publication(packed=call.read_format.is_packed) for each in body.items]
    if any(each.id is None for each in publications):
        state = await call.store.feeds.describe(name)
        if state is None:
            raise unknown_feed(name.name)
        if state.config.type != "sorted":
            publications = [
                each if each.id is not None else type(each)(each.item, _fresh_id(call), each.position, each.edit)
                for each in publications
            ]
    published = await call.store.items.publish(name, publications, instance=instance_of(call), now_ms=call.now_ms)
    return Reply(200, PublishAnswer(list(published)))


def _fresh_id(call: Call) -> str:
    return uuid7(call.service.clock.now_ms(), random_bytes(RANDOM_BYTES))


async def items(call: Call) -> Reply:
    """List the items of a feed in its order."""
    check_int("limit", call.query.limit, 1, PAGE_MAX)
    name = path_feed(call)
    cursor = read_page_cursor(call, call.query.cursor, name.name)
    page = await call.store.items.list(name, cursor=cursor, limit=call.query.limit, now_ms=call.now_ms)
    return Reply(200, ItemRows.of(_shown(page), write_page_cursor(call, page.cursor, name.name), packed=call.packed))


def _shown(page: ItemsSnapshot) -> ItemsSnapshot:
    """The page without the feeds that belong to the service, which a directory lists."""
    rows = [each for each in page.rows if not each.id.startswith(RESERVED_PREFIX)]
    return page if len(rows) == len(page.rows) else replace(page, rows=rows)


async def snapshot_items(call: Call) -> Reply:
    """All items of a feed at one instant."""
    page = await call.store.items.snapshot(path_feed(call), now_ms=call.now_ms)
    return Reply(200, ItemRows.of(_shown(page), None, packed=call.packed))


async def find_items(call: Call) -> Reply:
    """Find items by id."""
    check_batch("ids", len(call.body.ids), BATCH_MAX)
    found = await call.store.items.find(path_feed(call), call.body.ids, now_ms=call.now_ms)
    return Reply(200, FoundItems([None if each is None else ItemAnswer.of(each, packed=call.packed) for each in found]))


async def move(call: Call) -> Reply:
    """Move items of a sorted feed."""
    moves = call.body.model()
    check_batch("moves", len(moves), BATCH_MAX)
    moved = await call.store.items.move(path_feed(call), moves, instance=instance_of(call), now_ms=call.now_ms)
    return Reply(200, MoveAnswer(list(moved)))


async def retract(call: Call) -> Reply:
    """Retract items."""
    check_batch("ids", len(call.body.ids), BATCH_MAX)
    retracted: list[Retracted] = list(
        await call.store.items.retract(path_feed(call), call.body.ids, instance=instance_of(call), now_ms=call.now_ms)
    )
    return Reply(200, RetractAnswer(retracted))


async def take(call: Call) -> Reply:
    """Take items out of an item queue, at once or as soon as there are some."""
    body: TakeBody = call.body
    check_int("wait_ms", body.wait_ms, 0, POLL_MS_MAX)
    name, deadline_ms = path_feed(call), monotonic_ms() + body.wait_ms
    while True:
        taken = await call.store.items.take(name, body.limit, now_ms=call.now_ms)
        left_ms = deadline_ms - monotonic_ms()
        if taken or left_ms <= 0:
            break
        if await first_of(call.store.signals.changed(name, None, left_ms), *wait_ends(call)) is None:
            break
    return Reply(200, ItemsAnswer([ItemAnswer.of(each, packed=call.packed) for each in taken]))


async def changes(call: Call) -> Reply:
    """Read the changes of a feed after a cursor."""
    check_int("limit", call.query.limit, 1, PAGE_MAX)
    found = await call.store.feeds.changes(path_feed(call), cursor_of(call.query.after), limit=call.query.limit)
    return Reply(200, ChangesAnswer.of(found, packed=call.packed))


async def changed(call: Call) -> Reply:
    """Wait until a feed may have changed."""
    body: ChangedBody = call.body
    check_int("timeout_ms", body.timeout_ms, 0, POLL_MS_MAX)
    waiting = call.store.signals.changed(path_feed(call), cursor_of(body.after), body.timeout_ms)
    return Reply(200, ChangedAnswer(bool(await first_of(waiting, *wait_ends(call)))))


_ITEMS = "/feeds/{feed}/items"
_READ, _WRITE = scopes("read"), scopes("feeds")
OPERATIONS: tuple[Operation, ...] = (
    post(
        "publish",
        _ITEMS,
        "Publish up to 1,000 items.",
        _WRITE,
        publish,
        PublishBody,
        PublishAnswer,
        "unknown_feed",
        is_batch=True,
    ),
    get("items", _ITEMS, "List the items of a feed in its order.", _READ, items, ItemRows, query=PageQuery),
    get(
        "snapshot_items",
        "/feeds/{feed}/snapshot",
        "Show all items of a feed as of one instant.",
        _READ,
        snapshot_items,
        ItemRows,
    ),
    post(
        "find_items", f"{_ITEMS}/find", "Find items by their ids.", _READ, find_items, IdsBody, FoundItems, rate="read"
    ),
    post("move", f"{_ITEMS}/move", "Move items of a sorted feed.", _WRITE, move, MoveBody, MoveAnswer, "wrong_type"),
    post("retract", f"{_ITEMS}/retract", "Retract items.", _WRITE, retract, IdsBody, RetractAnswer, "unknown_feed"),
    post(
        "take",
        f"{_ITEMS}/take",
        "Take items out of an item queue. A lost answer loses its items: use jobs where that matters.",
        _WRITE,
        take,
        TakeBody,
        ItemsAnswer,
        "wrong_type",
        is_poll=True,
        is_body_optional=True,
    ),
    get(
        "changes",
        "/feeds/{feed}/changes",
        "Read the changes of a feed after a cursor.",
        _READ,
        changes,
        ChangesAnswer,
        query=ChangesQuery,
    ),
    post(
        "changed",
        "/feeds/{feed}/changed",
        "Wait until a feed may have changed.",
        _READ,
        changed,
        ChangedBody,
        ChangedAnswer,
        is_poll=True,
        rate="read",
    ),
)
