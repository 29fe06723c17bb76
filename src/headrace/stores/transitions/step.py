"""One atomic step on a shard: the instant, the rows, and the journal lines that are written at its end."""

from msgspec.structs import replace

from headrace.model.config import QueueConfig
from headrace.model.event import Entry, EventName, Line, encode_lines
from headrace.model.job import Record
from headrace.model.limits import CONSUMER_SILENT_MS, JOURNAL_TRIM_PER_CALL_MAX, PLACE_BITS, PRIORITY_MAX
from headrace.model.names import Queue
from headrace.stores.transitions.rows import Head, OldestEntry, Row, Rows


class Step:
    """Collects what happens in one call, so that all of it becomes one journal entry."""

    def __init__(self, rows: Rows, now_ms: int, worker: str | None = None) -> None:
        self.rows = rows
        self.now_ms = now_ms
        self.worker = worker
        self.lines: list[Line] = []
        self.woke = False
        self._companion: Step | None = None

    def companion(self) -> "Step":
        """The step on the companion's shard that is taken together with this one."""
        if self._companion is None:
            self._companion = Step(self.rows.companion(), self.now_ms)
        return self._companion

    def note(self, line: Line) -> None:
        """Add a journal line."""
        self.lines.append(line)

    def finish(self) -> list[Queue]:
        """Write the journal entry, if anything happened, keep the journal within its bounds, and say which queues
        may have work now that had none."""
        woken = [] if self._companion is None else self._companion.finish()
        if self.woke:
            woken.append(self.rows.shard.queue)
        if self.lines:
            self._write()
        return woken

    def _write(self) -> None:
        rows, head = self.rows, self.rows.head
        head.seq += len(self.lines)
        head.at_ms = max(head.at_ms, self.now_ms)
        if head.first_seq == head.seq - len(self.lines) + 1:
            head.oldest_at_ms = head.at_ms
        lines = encode_lines(self.lines)
        rows.append(
            Entry(
                epoch=head.epoch,
                last_seq=head.seq,
                count=len(self.lines),
                at_ms=head.at_ms,
                worker=self.worker,
                lines=lines,
            )
        )
        head.journal_bytes += len(lines)
        self.lines = []
        trim(rows, self.now_ms, JOURNAL_TRIM_PER_CALL_MAX)

    def wait(self, record: Record) -> Record:
        """Let a record wait, ready (with a new number) when it is due and later otherwise; returns it as stored."""
        place = self.draw(record) if record.run_at_ms <= self.now_ms else None
        record = replace(record, place=place)
        self.rows.put(Row(record))
        self.woke = True
        return record

    def draw(self, record: Record) -> int:
        """A new place at the end of the line of the record's priority."""
        self.rows.head.number += 1
        return place_of(self.rows.config.priority_of(record.policy), self.rows.head.number)

    def line_of(self, event: EventName, record: Record, *, letter: int | None = None) -> Line:
        """A line about a record that waits: what it is and when it is due."""
        fresh = event in ("enqueued", "blocked", "unblocked")
        return Line(
            event,
            record.id,
            record.kind,
            record.tag,
            self.rows.config.priority_of(record.policy),
            None if fresh else record.attempts,
            None if fresh else record.stalls,
            run_at_ms=record.run_at_ms,
            letter=letter,
            payload_bytes=len(record.payload),
        )


def place_of(priority: int, number: int) -> int:
    """The place in line: higher priorities first, then by number."""
    return (PRIORITY_MAX - priority << PLACE_BITS) + number


def number_at(place: int) -> int:
    """The number that a place was drawn with."""
    return place & ((1 << PLACE_BITS) - 1)


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


def _may_trim(config: QueueConfig, head: Head, now_ms: int) -> bool:
    # Decided from the counters alone, so that an ordinary call need not look at the journal's front.
    return (
        head.journal_bytes > config.journal_bytes_max
        or head.seq - head.first_seq >= config.journal_keep_max
        or (head.first_seq <= head.seq and head.oldest_at_ms <= now_ms - config.journal_keep_ms)
    )
