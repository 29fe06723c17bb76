"""The journal of a shard: an entry for each call, consecutive numbers, and retention."""

from headrace.model.event import Entry
from headrace.model.limits import CONSUMER_SILENT_MS, JOURNAL_TRIM_PER_CALL_MAX
from headrace.model.queue_config import QueueConfig
from headrace.stores.engine.rows import DirectRows, OldestEntry, Rows, ShardCounters


def append(rows: DirectRows, lines: bytes, count: int, now_ms: int, worker: str | None) -> None:
    """Number the lines of one call, write them as an entry, and keep the journal within its bounds."""
    head = rows.head
    number(head, count, len(lines), now_ms)
    rows.put_entry(
        Entry(epoch=head.epoch, last_seq=head.seq, count=count, at_ms=head.at_ms, worker=worker, lines=lines)
    )
    trim(rows, now_ms, JOURNAL_TRIM_PER_CALL_MAX)


def number(head: ShardCounters, count: int, size: int, now_ms: int) -> None:
    """Give the lines of one call, which take so many bytes, the next numbers: the last of them is `head.seq` then, and
    their time `head.at_ms`."""
    head.seq += count
    head.at_ms = max(head.at_ms, now_ms)
    if head.first_seq == head.seq - count + 1:
        head.oldest_at_ms = head.at_ms
    head.journal_bytes += size


def trim(rows: Rows, now_ms: int, limit: int) -> int:
    """Drop journal entries beyond the queue's retention, oldest first, at most `limit`; says how many.

    Age and count wait for consumers that asked for it and were heard of within a week; the byte limit waits for nobody.
    """
    config, head = rows.config, rows.head
    if not _may_trim(config, head, now_ms):
        return 0
    held_seq = min(
        (each.seq for each in rows.consumers() if each.hold and each.seen_at_ms > now_ms - CONSUMER_SILENT_MS),
        default=head.seq,
    )
    for dropped in range(limit):
        oldest = rows.oldest_entry()
        head.oldest_at_ms = 0 if oldest is None else oldest.at_ms
        if oldest is None:
            return dropped
        too_many = head.seq - oldest.last_seq >= config.journal_keep_max
        too_old = oldest.at_ms <= now_ms - config.journal_keep_ms
        too_large = head.journal_bytes > config.journal_bytes_max
        if not (too_large or ((too_many or too_old) and oldest.last_seq <= held_seq)):
            return dropped
        _drop_oldest(rows, oldest)
    oldest = rows.oldest_entry()
    head.oldest_at_ms = 0 if oldest is None else oldest.at_ms
    return limit


def erase_journal(rows: Rows, limit: int) -> int:
    """Drop entries of a queue that goes, oldest first, whatever its retention, at most `limit`; says how many."""
    dropped = 0
    while (oldest := rows.oldest_entry()) is not None and dropped < limit:
        _drop_oldest(rows, oldest)
        dropped += 1
    rows.head.oldest_at_ms = 0 if oldest is None else oldest.at_ms
    return dropped


def _drop_oldest(rows: Rows, oldest: OldestEntry) -> None:
    rows.drop_oldest_entry()
    rows.head.first_seq = oldest.last_seq + 1
    rows.head.journal_bytes -= oldest.bytes


def _may_trim(config: QueueConfig, head: ShardCounters, now_ms: int) -> bool:
    # Decided from the counters alone, so that an ordinary call need not look at the journal's front.
    return (
        head.journal_bytes > config.journal_bytes_max
        or head.seq - head.first_seq >= config.journal_keep_max
        or (head.first_seq <= head.seq and head.oldest_at_ms <= now_ms - config.journal_keep_ms)
    )
