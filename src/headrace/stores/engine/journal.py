"""The journal of a shard: an entry for each call under consecutive numbers, its readers, and its retention."""

from collections.abc import Sequence

from msgspec.structs import replace

from headrace.model.event import Bounds, Consumer, Entry, Span
from headrace.model.limits import (
    BATCH_MAX,
    CONSUMER_CHARS_MAX,
    CONSUMER_SILENT_MS,
    JOURNAL_PAGE_BYTES,
    JOURNAL_PAGE_MAX,
    JOURNAL_TRIM_PER_CALL_MAX,
    SWEEP_PER_CALL_MAX,
)
from headrace.model.names import Shard
from headrace.model.policy import QueueConfig
from headrace.model.validate import check_batch, check_bool, check_int, check_text
from headrace.stores.engine.rows import DirectRows, Engine, OldestEntry, Rows, ShardCounters, Tx
from headrace.stores.engine.step import at
from headrace.stores.shared.validate import (
    SEQ_MAX,
    beyond_journal,
    check_range,
    check_spans,
    unknown_consumer,
    unknown_queue,
)

NO_BOUNDS = Bounds(0, 1, 0, None, None, 0)
"""The bounds of an unknown shard."""


class EngineJournal:
    """Reads entries, and keeps the offsets of registered readers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def read(self, shard: Shard, after: int, upto: int, *, limit: int = JOURNAL_PAGE_MAX) -> Sequence[Entry]:
        check_range(after, upto)
        check_int("limit", limit, 1, JOURNAL_PAGE_MAX)

        def query(tx: Tx) -> Sequence[Entry]:
            rows = _numbered(tx, shard)
            if rows is None or after >= upto:
                return []
            return cut(rows.entries(after, upto, limit, JOURNAL_PAGE_BYTES), after, upto)

        return await self._engine.read(query)

    async def bounds(self, shard: Shard) -> Bounds:
        return await self._engine.read(lambda tx: _bounds(tx, shard))

    async def all_bounds(self, shards: Sequence[Shard]) -> Sequence[Bounds]:
        check_batch("shards", len(shards), BATCH_MAX)
        return await self._engine.read(lambda tx: [_bounds(tx, shard) for shard in shards])

    async def reached(self, spans: Sequence[Span], at_ms: int) -> Sequence[int]:
        check_spans(spans, at_ms)
        return await self._engine.read(lambda tx: [_reached(tx, span, at_ms) for span in spans])

    async def register(
        self, shard: Shard, consumer: str, *, seq: int = 0, hold: bool = False, now_ms: int | None = None
    ) -> Consumer:
        check_text("consumer", consumer, CONSUMER_CHARS_MAX)
        check_int("seq", seq, 0, SEQ_MAX)
        check_bool("hold", hold)

        def act(tx: Tx, now_ms: int) -> Consumer:
            rows = _known(tx, shard)
            _check_within(rows, seq)
            known = rows.consumer(consumer)
            new = Consumer(consumer, seq if known is None else known.seq, hold, now_ms)
            rows.put_consumer(new)
            return new

        return await self._engine.write(at(now_ms, act))

    async def advance(self, shard: Shard, consumer: str, seq: int, *, now_ms: int | None = None) -> Consumer:
        check_int("seq", seq, 0, SEQ_MAX)

        def act(tx: Tx, now_ms: int) -> Consumer:
            rows = _known(tx, shard)
            known = rows.consumer(consumer)
            if known is None:
                raise unknown_consumer(shard, consumer)
            _check_within(rows, seq)
            new = replace(known, seq=max(known.seq, seq), seen_at_ms=now_ms)
            rows.put_consumer(new)
            return new

        return await self._engine.write(at(now_ms, act))

    async def forget(self, shard: Shard, consumer: str) -> bool:
        def act(tx: Tx) -> bool:
            rows = _numbered(tx, shard)
            if rows is None or rows.consumer(consumer) is None:
                return False
            rows.drop_consumer(consumer)
            return True

        return await self._engine.write(act)

    async def consumers(self, shard: Shard) -> Sequence[Consumer]:
        def query(tx: Tx) -> Sequence[Consumer]:
            rows = _numbered(tx, shard)
            return [] if rows is None else rows.consumers()

        return await self._engine.read(query)

    async def trim(self, shard: Shard, *, limit: int = SWEEP_PER_CALL_MAX, now_ms: int | None = None) -> int:
        check_int("limit", limit, 1, SWEEP_PER_CALL_MAX)

        def act(tx: Tx, now_ms: int) -> int:
            rows = _numbered(tx, shard)
            return 0 if rows is None else trim(rows, now_ms, limit)

        return await self._engine.write(at(now_ms, act))


def append(rows: DirectRows, lines: bytes, count: int, now_ms: int, worker: str | None) -> None:
    """Number the lines of one call, write them as an entry, and trim the journal."""
    counters = rows.counters
    number(counters, count, len(lines), now_ms)
    rows.put_entry(
        Entry(
            epoch=counters.epoch, last_seq=counters.seq, count=count, at_ms=counters.at_ms, worker=worker, lines=lines
        )
    )
    trim(rows, now_ms, JOURNAL_TRIM_PER_CALL_MAX)


def number(counters: ShardCounters, count: int, size: int, now_ms: int) -> None:
    """Give the lines of one call the next numbers: then `counters.seq` is the last of them, `counters.at_ms` their
    time."""
    counters.seq += count
    counters.at_ms = max(counters.at_ms, now_ms)
    if counters.first_seq == counters.seq - count + 1:
        counters.oldest_at_ms = counters.at_ms
    counters.journal_bytes += size


def trim(rows: Rows, now_ms: int, limit: int) -> int:
    """Drop journal entries beyond the queue's retention, oldest first, at most `limit`; returns how many.

    Age and count wait for consumers with `hold` that were active within a week; the byte limit does not wait.
    """
    config, counters = rows.config, rows.counters
    if not _may_trim(config, counters, now_ms):
        return 0
    held_seq = min(
        (each.seq for each in rows.consumers() if each.hold and each.seen_at_ms > now_ms - CONSUMER_SILENT_MS),
        default=counters.seq,
    )
    for dropped in range(limit):
        oldest = rows.oldest_entry()
        counters.oldest_at_ms = 0 if oldest is None else oldest.at_ms
        if oldest is None:
            return dropped
        too_many = counters.seq - oldest.last_seq >= config.journal_keep_max
        too_old = oldest.at_ms <= now_ms - config.journal_keep_ms
        too_large = counters.journal_bytes > config.journal_bytes_max
        if not (too_large or ((too_many or too_old) and oldest.last_seq <= held_seq)):
            return dropped
        _drop_oldest(rows, oldest)
    oldest = rows.oldest_entry()
    counters.oldest_at_ms = 0 if oldest is None else oldest.at_ms
    return limit


def erase_journal(rows: Rows, limit: int) -> int:
    """Drop entries of a deleted queue, oldest first, at most `limit`; returns how many."""
    dropped = 0
    while (oldest := rows.oldest_entry()) is not None and dropped < limit:
        _drop_oldest(rows, oldest)
        dropped += 1
    rows.counters.oldest_at_ms = 0 if oldest is None else oldest.at_ms
    return dropped


def _drop_oldest(rows: Rows, oldest: OldestEntry) -> None:
    rows.drop_oldest_entry()
    rows.counters.first_seq = oldest.last_seq + 1
    rows.counters.journal_bytes -= oldest.bytes


def _may_trim(config: QueueConfig, counters: ShardCounters, now_ms: int) -> bool:
    # Decided from the counters alone, so that an ordinary call need not read the oldest entry.
    return (
        counters.journal_bytes > config.journal_bytes_max
        or counters.seq - counters.first_seq >= config.journal_keep_max
        or (counters.first_seq <= counters.seq and counters.oldest_at_ms <= now_ms - config.journal_keep_ms)
    )


def bounds_of(counters: ShardCounters) -> Bounds:
    """The bounds of a shard's journal."""
    is_empty = counters.first_seq > counters.seq
    return Bounds(
        counters.epoch,
        counters.first_seq,
        counters.seq,
        None if is_empty else counters.oldest_at_ms,
        None if is_empty else counters.at_ms,
        counters.journal_bytes,
    )


def cut(entries: list[Entry], after: int, upto: int) -> list[Entry]:
    """The entries of a page without events beyond the range: only the first and the last can have such events."""
    if entries:
        entries[0] = entries[0].within(after, upto)
        entries[-1] = entries[-1].within(after, upto)
    return entries


def _bounds(tx: Tx, shard: Shard) -> Bounds:
    rows = _numbered(tx, shard)
    return NO_BOUNDS if rows is None else bounds_of(rows.counters)


def _reached(tx: Tx, span: Span, at_ms: int) -> int:
    rows = _numbered(tx, span.shard)
    return span.after if rows is None else rows.reached(span.after, span.upto, at_ms)


def _numbered(tx: Tx, shard: Shard) -> Rows | None:
    rows = tx.rows(shard)
    if rows is not None:
        rows.number()
    return rows


def _known(tx: Tx, shard: Shard) -> Rows:
    rows = _numbered(tx, shard)
    if rows is None:
        raise unknown_queue(shard)
    return rows


def _check_within(rows: Rows, seq: int) -> None:
    if seq > rows.counters.seq:
        raise beyond_journal(rows.shard, rows.counters.seq, seq)
