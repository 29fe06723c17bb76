"""The items protocol over an engine."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from headrace.model.errors import Refused
from headrace.model.feed import FeedName, Item, Move, Publication, check_writable
from headrace.model.limits import BATCH_MAX, CHANGES_PAGE_BYTES, CURSOR_CHARS_MAX, PAGE_MAX
from headrace.model.results import ItemsSnapshot, Moved, Published, Retracted
from headrace.model.validate import check_int
from headrace.stores.engine import item_changes
from headrace.stores.engine.feed_log import FeedLog, end_of
from headrace.stores.engine.feed_rows import FeedRows, ItemRow
from headrace.stores.engine.feeds import known_feed
from headrace.stores.engine.jobs import at
from headrace.stores.engine.rows import Engine, Tx
from headrace.stores.shared.cursors import read_text, write_text
from headrace.stores.shared.validate import check_call, check_item_ids

T = TypeVar("T")


class EngineItems:
    """Puts items into feeds, takes them out and shows them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def publish(
        self, feed: FeedName, publications: Sequence[Publication], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Published]:
        check_call(feed, "publications", len(publications), instance)

        def act(tx: Tx, now_ms: int) -> list[Published]:
            log = FeedLog(known_feed(tx, feed), instance, now_ms)
            answers = item_changes.publish(log, publications)
            log.close()
            if any(answer.ok for answer in answers):
                self._engine.tell_changed(feed)
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
            answers = item_changes.retract(log, ids)
            if log.close():
                self._engine.tell_changed(feed)
            return answers

        return await self._write(feed, ids, at(now_ms, act)) if ids else []

    async def move(
        self, feed: FeedName, moves: Sequence[Move], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Moved]:
        check_call(feed, "moves", len(moves), instance)

        def act(tx: Tx, now_ms: int) -> list[Moved]:
            log = FeedLog(known_feed(tx, feed), instance, now_ms)
            answers = item_changes.move(log, moves)
            if log.close():
                self._engine.tell_changed(feed)
            return answers

        named = [id for each in moves for id in (each.id, each.position.id) if id is not None]
        return await self._write(feed, named, at(now_ms, act)) if moves else []

    async def _write(self, feed: FeedName, ids: Sequence[str], act: Callable[[Tx], T]) -> T:  # noqa: ARG002 - for drivers
        """Run a step on a feed that names these ids; a driver may ask for all that it needs at once."""
        return await self._engine.write(act)

    async def take(self, feed: FeedName, limit: int = 1, *, now_ms: int | None = None) -> Sequence[Item]:
        check_writable(feed)
        check_int("limit", limit, 1, BATCH_MAX)
        # Many may wait for few items: who finds none has written nothing.
        if not await self._engine.read(lambda tx: item_changes.holds(known_feed(tx, feed))):
            return []
        return await self._engine.write(at(now_ms, lambda tx, _: item_changes.take(known_feed(tx, feed), limit)))

    async def find(self, feed: FeedName, ids: Sequence[str], *, now_ms: int | None = None) -> Sequence[Item | None]:
        check_item_ids(ids)

        def look(tx: Tx, now_ms: int) -> list[Item | None]:
            rows = tx.feed(feed)
            if rows is None:
                return [None] * len(ids)
            rows.load(ids)
            over_ms = _over_ms(rows, now_ms)
            found = map(rows.row, ids)
            return [None if row is None or row.at_ms <= over_ms else _shown(row) for row in found]

        return await self._engine.read(at(now_ms, look))

    async def list(
        self, feed: FeedName, *, cursor: str | None = None, limit: int = PAGE_MAX, now_ms: int | None = None
    ) -> ItemsSnapshot:
        check_int("limit", limit, 1, PAGE_MAX)
        rank, last_id = read_rank_cursor(cursor)

        def look(tx: Tx, now_ms: int) -> ItemsSnapshot:
            rows = tx.feed(feed)
            if rows is None:
                return ItemsSnapshot([], None)
            found = _page(rows, _start(rows, rank, last_id), limit, _over_ms(rows, now_ms))
            more = write_rank_cursor(found[-1]) if found and rows.first(1, found[-1].rank) else None
            return ItemsSnapshot([_shown(row) for row in found], end_of(rows), more)

        return await self._engine.read(at(now_ms, look))

    async def snapshot(self, feed: FeedName, *, now_ms: int | None = None) -> ItemsSnapshot:
        def look(tx: Tx, now_ms: int) -> ItemsSnapshot:
            rows = tx.feed(feed)
            if rows is None:
                return ItemsSnapshot([], None)
            over_ms = _over_ms(rows, now_ms)
            found = rows.first(rows.counters.items)
            return ItemsSnapshot([_shown(row) for row in found if row.at_ms > over_ms], end_of(rows))

        return await self._engine.read(at(now_ms, look))


def write_rank_cursor(row: ItemRow) -> str:
    """The cursor that continues a list behind an item."""
    return write_text(f"{row.rank}/{row.id}")


def read_rank_cursor(cursor: str | None) -> tuple[str, str]:
    """The rank and the id of the last item shown; empty for the beginning."""
    if cursor is None:
        return "", ""
    refusal = Refused("bad_cursor", "the cursor is not one that a list of this feed gave; start without one")
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
    """The next items that are not over; those that are stand at the front of their feed."""
    found = rows.first(limit, start, CHANGES_PAGE_BYTES)
    while found and found[-1].at_ms <= over_ms:
        found = rows.first(limit, found[-1].rank, CHANGES_PAGE_BYTES)
    return [row for row in found if row.at_ms > over_ms]


def _start(rows: FeedRows, rank: str, last_id: str) -> str:
    """The rank behind which a list goes on. Those of a sorted feed may have been drawn anew: there it is that of the
    last item shown, wherever it stands by now."""
    if rows.config.type == "sorted" and last_id and (last := rows.row(last_id)) is not None:
        return last.rank
    return rank


def _over_ms(rows: FeedRows, now_ms: int) -> int:
    over_ms = item_changes.over_before_ms(rows, max(now_ms, rows.counters.at_ms))
    return -1 if over_ms is None else over_ms


def _shown(row: ItemRow) -> Item:
    return Item(row.id, row.item, row.at_ms)
