"""The journal of a shard: an entry for each call, consecutive numbers, and retention."""

from headrace.model.event import Entry
from headrace.model.limits import CONSUMER_SILENT_MS, JOURNAL_TRIM_PER_CALL_MAX
from headrace.model.queue_config import QueueConfig
from headrace.stores.engine.rows import DirectRows, OldestEntry, Rows, ShardCounters


def append(rows: DirectRows, lines: bytes, count: int, now_ms: int, worker: str | None) -> None:
    """Number the lines of one call, write them as an entry, and keep the journal within its bounds."""
    counters = rows.counters
    number(counters, count, len(lines), now_ms)
    rows.put_entry(
        Entry(
            epoch=counters.epoch, last_seq=counters.seq, count=count, at_ms=counters.at_ms, worker=worker, lines=lines
        )
    )
    trim(rows, now_ms, JOURNAL_TRIM_PER_CALL_MAX)


def number(counters: ShardCounters, count: int, size: int, now_ms: int) -> None:
    """Give the lines of one call the next numbers: afterwards the last of them is `counters.seq`, and their time
    `counters.at_ms`."""
    counters.seq += count
    counters.at_ms = max(counters.at_ms, now_ms)
    if counters.first_seq == counters.seq - count + 1:
        counters.oldest_at_ms = counters.at_ms
    counters.journal_bytes += size


def trim(rows: Rows, now_ms: int, limit: int) -> int:
    """Drop journal entries beyond the queue's retention, oldest first, at most `limit`; says how many.

    Age and count wait for consumers that asked for it and were heard of within a week; the byte limit waits for nobody.
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
    """Drop entries of a queue that goes, oldest first, whatever its retention, at most `limit`; says how many."""
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
    # Decided from the counters alone, so that an ordinary call need not look at the journal's front.
    return (
        counters.journal_bytes > config.journal_bytes_max
        or counters.seq - counters.first_seq >= config.journal_keep_max
        or (counters.first_seq <= counters.seq and counters.oldest_at_ms <= now_ms - config.journal_keep_ms)
    )
