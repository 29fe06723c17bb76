"""The items of a feed: publish, edit, move, retract, take, evict and list."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from headrace.model.errors import Refused
from headrace.model.feed import FeedName, Item, ItemPosition, Move, Publication, check_writable
from headrace.model.limits import (
    BATCH_MAX,
    CHANGES_PAGE_BYTES,
    CURSOR_CHARS_MAX,
    EVICT_PER_CALL_MAX,
    PAGE_MAX,
    RANK_CHARS_MAX,
    RERANK_MAX,
)
from headrace.model.rank import SIGNS, between, spread
from headrace.model.results import ItemsSnapshot, Moved, Published, Retracted
from headrace.model.validate import check_int
from headrace.stores.engine.feed_log import FeedLog, end_of, known_feed
from headrace.stores.engine.feed_rows import FeedRows, ItemRow
from headrace.stores.engine.rows import Engine, Tx
from headrace.stores.engine.step import at
from headrace.stores.shared.cursors import read_text, write_text
from headrace.stores.shared.validate import check_call, check_item_ids, check_publication, wrong_type

T = TypeVar("T")
_NUMBER_DIGITS = 15
_NUMBER_MAX = 10**_NUMBER_DIGITS - 1
AGED_PAGE = 16


class EngineItems:
    """Items of feeds."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def publish(
        self, feed: FeedName, publications: Sequence[Publication], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Published]:
        check_call(feed, "publications", len(publications), instance)

        def act(tx: Tx, now_ms: int) -> list[Published]:
            log = FeedLog(known_feed(tx, feed), instance, now_ms)
            answers = publish(log, publications)
            log.close()
            if any(answer.ok for answer in answers):
                self._engine.notify_changed(feed)
            return answers

        named = [id for each in publications for id in (each.id, each.position.id) if id is not None]
        return await self._write(feed, named, at(now_ms, act)) if publications else []

    async def retract(
        self, feed: FeedName, ids: Sequence[str], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Retracted]:
        check_call(feed, "ids", len(ids), instance)
        check_item_ids(ids)

        def act(tx: Tx, now_ms: int) -> list[Retracted]:
            log = FeedLog(known_feed(tx, feed), instance, now_ms)
            answers = retract(log, ids)
            if log.close():
                self._engine.notify_changed(feed)
            return answers

        return await self._write(feed, ids, at(now_ms, act)) if ids else []

    async def move(
        self, feed: FeedName, moves: Sequence[Move], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Moved]:
        check_call(feed, "moves", len(moves), instance)

        def act(tx: Tx, now_ms: int) -> list[Moved]:
            log = FeedLog(known_feed(tx, feed), instance, now_ms)
            answers = move(log, moves)
            if log.close():
                self._engine.notify_changed(feed)
            return answers

        named = [id for each in moves for id in (each.id, each.position.id) if id is not None]
        return await self._write(feed, named, at(now_ms, act)) if moves else []

    async def _write(self, feed: FeedName, ids: Sequence[str], act: Callable[[Tx], T]) -> T:  # noqa: ARG002 - for drivers
        """Run a step on a feed with these ids; a driver may read their rows in one query."""
        return await self._engine.write(act)

    async def take(self, feed: FeedName, limit: int = 1, *, now_ms: int | None = None) -> Sequence[Item]:
        check_writable(feed)
        check_int("limit", limit, 1, BATCH_MAX)
        # Many callers may wait for few items: without an item, no write transaction begins.
        if not await self._engine.read(lambda tx: holds(known_feed(tx, feed))):
            return []
        return await self._engine.write(at(now_ms, lambda tx, _: take(known_feed(tx, feed), limit)))

    async def find(self, feed: FeedName, ids: Sequence[str], *, now_ms: int | None = None) -> Sequence[Item | None]:
        check_item_ids(ids)

        def query(tx: Tx, now_ms: int) -> list[Item | None]:
            rows = tx.feed(feed)
            if rows is None:
                return [None] * len(ids)
            rows.load(ids)
            over_ms = _over_ms(rows, now_ms)
            found = map(rows.row, ids)
            return [None if row is None or row.at_ms <= over_ms else _shown(row) for row in found]

        return await self._engine.read(at(now_ms, query))

    async def list(
        self, feed: FeedName, *, cursor: str | None = None, limit: int = PAGE_MAX, now_ms: int | None = None
    ) -> ItemsSnapshot:
        check_int("limit", limit, 1, PAGE_MAX)
        rank, last_id = read_rank_cursor(cursor)

        def query(tx: Tx, now_ms: int) -> ItemsSnapshot:
            rows = tx.feed(feed)
            if rows is None:
                return ItemsSnapshot([], None)
            found = _page(rows, _start(rows, rank, last_id), limit, _over_ms(rows, now_ms))
            more = write_rank_cursor(found[-1]) if found and rows.first(1, found[-1].rank) else None
            return ItemsSnapshot([_shown(row) for row in found], end_of(rows), more)

        return await self._engine.read(at(now_ms, query))

    async def snapshot(self, feed: FeedName, *, now_ms: int | None = None) -> ItemsSnapshot:
        def query(tx: Tx, now_ms: int) -> ItemsSnapshot:
            rows = tx.feed(feed)
            if rows is None:
                return ItemsSnapshot([], None)
            over_ms = _over_ms(rows, now_ms)
            found = rows.first(rows.counters.items)
            return ItemsSnapshot([_shown(row) for row in found if row.at_ms > over_ms], end_of(rows))

        return await self._engine.read(at(now_ms, query))


def publish(log: FeedLog, publications: Sequence[Publication]) -> list[Published]:
    """Publish items in order; a feed then evicts if one of them is new."""
    rows = log.rows
    for each in publications:
        check_publication(rows.feed, rows.config.type, each)
    rows.load([id for each in publications for id in (each.id, each.position.id) if id is not None])
    answers = [_publish(log, each) for each in publications]
    if rows.config.type == "feed" and any(each.status == "published" for each in answers):
        evict(log)
    return answers


def _publish(log: FeedLog, publication: Publication) -> Published:
    rows, counters, type = log.rows, log.rows.counters, log.rows.config.type
    id, item, position = publication.id, publication.item, publication.position
    known = None if id is None else rows.row(id)
    if known is None and publication.edit:
        return Published(id, "unknown")
    if known is not None and type == "queue":
        return Published(id, "known")
    if position.id is not None and rows.row(position.id) is None:
        return Published(id, "unknown_neighbour")
    if known is None and type != "feed" and counters.items >= rows.config.items_max:
        return Published(id, "full")
    if id is None and counters.number == _NUMBER_MAX:
        return Published(id, "full")  # no number is left to draw; the caller must choose ids
    counters.total += 1
    if known is not None:
        assert id is not None  # the item was found by its id
        _edit(log, known, publication)
        return Published(id, "edited")
    if id is None:
        counters.number += 1
        id = str(counters.number)
    elif type == "sorted":
        counters.number = max(counters.number, _number_of(id))
    rows.put(ItemRow(id, item, _rank_at(rows, position), log.at_ms))
    counters.items += 1
    if type == "queue":
        log.touch()
    else:
        log.note("published", id, item, position if type == "sorted" else None)
    return Published(id, "published")


def _edit(log: FeedLog, known: ItemRow, publication: Publication) -> None:
    rows, item = log.rows, publication.item
    if rows.config.type == "feed":
        rows.drop(known)
        rows.put(ItemRow(known.id, item, _rank_at(rows, publication.position), log.at_ms))
        log.note("edited", known.id, item)
        return
    edited = ItemRow(known.id, item, known.rank, log.at_ms)
    rows.put(edited)
    log.note("edited", known.id, item)
    if not publication.edit:
        _move(log, edited, publication.position)


def _number_of(id: str) -> int:
    """The number that an id stands for, so that it is not drawn again; 0 for other texts."""
    is_number = id.isascii() and id.isdigit() and id[0] != "0" and len(id) <= _NUMBER_DIGITS
    return int(id) if is_number else 0


def move(log: FeedLog, moves: Sequence[Move]) -> list[Moved]:
    """Move items in order."""
    rows = log.rows
    if rows.config.type != "sorted":
        raise wrong_type(rows.feed, rows.config.type, "move items")
    rows.load([id for each in moves for id in (each.id, each.position.id) if id is not None])
    answers: list[Moved] = []
    for each in moves:
        known = rows.row(each.id)
        if known is None:
            answers.append(Moved(each.id, "unknown"))
        elif each.position.id is not None and rows.row(each.position.id) is None:
            answers.append(Moved(each.id, "unknown_neighbour"))
        else:
            answers.append(Moved(each.id, "moved" if _move(log, known, each.position) else "unchanged"))
    return answers


def _move(log: FeedLog, row: ItemRow, position: ItemPosition) -> bool:
    """Move an item; returns whether its position has changed. Next to itself it stays."""
    rows = log.rows
    if row.rank in _neighbours(rows, position):
        return False
    rows.drop(row)
    rows.put(ItemRow(row.id, row.item, _rank_at(rows, position), row.at_ms))
    log.note("moved", row.id, row.item, position)
    return True


def _rank_at(rows: FeedRows, position: ItemPosition) -> str:
    """A rank for a position; where it would be too long, the ranks around it are redistributed."""
    low, high = _neighbours(rows, position)
    rank = between(low, high)
    return rank if len(rank) <= RANK_CHARS_MAX else _rerank(rows, low, high)


def _neighbours(rows: FeedRows, position: ItemPosition) -> tuple[str | None, str | None]:
    """The ranks on either side of a position; None at an end."""
    if position.where == "first":
        return None, _rank(rows.first(1))
    if position.where == "last":
        return _rank(rows.last(1)), None
    neighbour = rows.row(position.id or "")
    assert neighbour is not None  # looked up before
    if position.where == "before":
        return _rank(rows.last(1, neighbour.rank)), neighbour.rank
    return neighbour.rank, _rank(rows.first(1, neighbour.rank))


def _rank(found: list[ItemRow]) -> str | None:
    return found[0].rank if found else None


def _rerank(rows: FeedRows, low: str | None, high: str | None) -> str:
    """Redistribute the ranks around a position in the same order; returns a rank between `low` and `high`."""
    before = [] if low is None else rows.last(RERANK_MAX + 1, low + SIGNS[0])[::-1]
    after = [] if high is None else rows.first(RERANK_MAX + 1, low or "")
    low_end = before.pop(0).rank if len(before) > RERANK_MAX else None
    high_end = after.pop().rank if len(after) > RERANK_MAX else None
    ranks = spread(low_end, high_end, len(before) + 1 + len(after))
    fresh = ranks.pop(len(before))
    around = [*before, *after]
    for row in around:
        rows.drop(row)
    for row, rank in zip(around, ranks, strict=True):
        rows.put(ItemRow(row.id, row.item, rank, row.at_ms))
    return fresh


def retract(log: FeedLog, ids: Sequence[str]) -> list[Retracted]:
    """Remove items in order."""
    rows, is_logged = log.rows, log.rows.config.type != "queue"
    rows.load(ids)
    answers: list[Retracted] = []
    for id in ids:
        known = rows.row(id)
        if known is None:
            answers.append(Retracted(id, "not_found"))
            continue
        rows.drop(known)
        rows.counters.items -= 1
        if is_logged:
            log.note("retracted", id)
        else:
            log.touch()
        answers.append(Retracted(id, "retracted"))
    return answers


def holds(rows: FeedRows) -> bool:
    """Whether an item queue has items; refuses other types."""
    if rows.config.type != "queue":
        raise wrong_type(rows.feed, rows.config.type, "hand out items")
    return rows.counters.items > 0


def take(rows: FeedRows, limit: int) -> list[Item]:
    """Take the first items out of an item queue."""
    if not holds(rows):
        return []
    taken = rows.first(limit, bytes_max=CHANGES_PAGE_BYTES)
    for row in taken:
        rows.drop(row)
    rows.counters.items -= len(taken)
    return [Item(row.id, row.item, row.at_ms) for row in taken]


def evict(log: FeedLog) -> int:
    """Take the oldest items beyond the bounds out of a feed, a bounded number; returns how many."""
    rows, counters, config = log.rows, log.rows.counters, log.rows.config
    surplus = min(counters.items - config.items_max, EVICT_PER_CALL_MAX)
    evicted = rows.first(surplus) if surplus > 0 else []
    for row in evicted:
        rows.drop(row)
        log.note("retracted", row.id, reason="count")
    aged = 0
    over_ms = over_before_ms(rows, log.at_ms)
    while over_ms is not None and len(evicted) + aged < EVICT_PER_CALL_MAX:
        # Mostly one item or none: each publication evicts the items that aged since the last one.
        page = rows.first(min(AGED_PAGE, EVICT_PER_CALL_MAX - len(evicted) - aged))
        over = [row for row in page if row.at_ms <= over_ms]
        for row in over:
            rows.drop(row)
            log.note("retracted", row.id, reason="age")
        aged += len(over)
        if len(over) < AGED_PAGE:
            break
    counters.items -= len(evicted) + aged
    return len(evicted) + aged


def over_before_ms(rows: FeedRows, at_ms: int) -> int | None:
    """The instant up to which published items are past their age; None without a limit of age."""
    return at_ms - rows.config.items_keep_ms if rows.config.items_keep_ms else None


def write_rank_cursor(row: ItemRow) -> str:
    """The cursor that continues a list after an item."""
    return write_text(f"{row.rank}/{row.id}")


def read_rank_cursor(cursor: str | None) -> tuple[str, str]:
    """The rank and the id of the last item shown; empty for the beginning."""
    if cursor is None:
        return "", ""
    refusal = Refused("bad_cursor", "the cursor is not from a list of this feed; start without one")
    if len(cursor) > 8 * CURSOR_CHARS_MAX:
        raise refusal
    try:
        rank, is_one, id = read_text(cursor).partition("/")
    except ValueError as error:
        raise refusal from error
    if not is_one:
        raise refusal
    return rank, id


def _page(rows: FeedRows, start: str, limit: int, over_ms: int) -> list[ItemRow]:
    """The next items that have not expired; expired items are at the front of their feed."""
    found = rows.first(limit, start, CHANGES_PAGE_BYTES)
    while found and found[-1].at_ms <= over_ms:
        found = rows.first(limit, found[-1].rank, CHANGES_PAGE_BYTES)
    return [row for row in found if row.at_ms > over_ms]


def _start(rows: FeedRows, rank: str, last_id: str) -> str:
    """The rank after which a list continues. Ranks of a sorted feed may have changed: there it is the present rank of
    the last item shown."""
    if rows.config.type == "sorted" and last_id and (last := rows.row(last_id)) is not None:
        return last.rank
    return rank


def _over_ms(rows: FeedRows, now_ms: int) -> int:
    over_ms = over_before_ms(rows, max(now_ms, rows.counters.at_ms))
    return -1 if over_ms is None else over_ms


def _shown(row: ItemRow) -> Item:
    return Item(row.id, row.item, row.at_ms)
