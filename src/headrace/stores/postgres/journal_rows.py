"""The journal of a shard: calls append lines to the inbox, and numbering moves them to the journal in order."""

from collections import deque

import msgspec
from msgspec.structs import astuple

from headrace.model.event import Consumer, Entry
from headrace.stores.engine.row_codec import consumer_of
from headrace.stores.engine.rows import OldestEntry
from headrace.stores.postgres.arrays import numbers
from headrace.stores.postgres.counters import COUNTS, PostgresShard, PostgresShardCounters, Sequences
from headrace.stores.postgres.sql import LazyTransaction

FRONT_ROWS = 200
"""The oldest entries are read this many at a time: every appended entry checks whether they have run out."""
PARTITION_SEQS = 4_000_000
"""The range of seq of a partition, as in journal_add_partition."""
NO_DELTAS = (0,) * len(COUNTS)


class AppendedLines(msgspec.Struct, frozen=True, gc=False):
    """The lines of one call, not yet numbered."""

    now_ms: int
    count: int
    worker: str | None
    lines: bytes


class NumberedCall(msgspec.Struct, frozen=True, gc=False):
    """A call of the inbox with the number of its last event, None when it has no lines."""

    ticket: int
    last_seq: int | None
    at_ms: int


class PostgresJournalRows(PostgresShard):
    """Entries under the seq of their last event, and the consumers that may hold them."""

    def __init__(
        self, transaction: LazyTransaction, shard_id: int, counters: PostgresShardCounters, sequences: Sequences
    ) -> None:
        super().__init__(transaction, shard_id, counters, sequences)
        self.unnumbered_calls = 0
        """The number of calls in the inbox when the step began."""
        self.folded_counts: tuple[int, ...] | None = None
        """The counts of the shard's row, once it is locked and has to be written."""
        self._appended: list[AppendedLines] = []
        self._numbered: list[NumberedCall] = []
        self._front: deque[OldestEntry] = deque()
        self._front_is_complete = False
        self._dropped_seq = 0
        self._consumers: list[Consumer] | None = None
        self._last_partition = counters.seq // PARTITION_SEQS

    def append(self, lines: bytes, count: int, now_ms: int, worker: str | None) -> None:
        self._appended.append(AppendedLines(now_ms, count, worker, lines))

    def take_inbox_columns(self) -> list[tuple[object, ...]]:
        """Take the rows that the step adds to the inbox; the last one carries the changes of the counts."""
        appended, self._appended = self._appended, []
        deltas = self.counters.take_deltas()
        if any(deltas) and not appended:
            appended = [AppendedLines(0, 0, None, b"")]
        last = len(appended) - 1
        return [
            (self.shard_id, *astuple(each), *(deltas if index == last else NO_DELTAS))
            for index, each in enumerate(appended)
        ]

    def write_inbox(self, columns: list[tuple[object, ...]]) -> None:
        """Insert rows into the inbox, in order."""
        if columns:
            self.run("inbox_write", *map(list, zip(*columns, strict=True)))

    def move_to_journal(self, ticket: int, count: int, size: int) -> None:
        """Move a call from the inbox to the journal, under the number that the counters have reached."""
        counters = self.counters
        self._numbered.append(NumberedCall(ticket, counters.seq if count else None, counters.at_ms))
        if count and self._front_is_complete:
            self._front.append(OldestEntry(counters.seq, counters.at_ms, size))

    def flush_entries(self) -> None:
        """Move numbered calls from the inbox to the journal, inside the server, and drop entries beyond retention;
        in one round trip inside `pipeline`."""
        numbered, self._numbered = self._numbered, []
        if numbered:
            seqs = [each.last_seq for each in numbered if each.last_seq is not None]
            self._add_partitions([seq for seq in seqs if seq > self._dropped_seq])
            self.run(
                "inbox_number",
                numbers([each.ticket for each in numbered]),
                numbers([each.last_seq for each in numbered]),
                numbers([each.at_ms for each in numbered]),
                self.shard_id,
                self.counters.epoch,
                self._dropped_seq,
            )
        if self._dropped_seq:
            self.run("journal_drop", self.shard_id, self._dropped_seq)
            self._dropped_seq = 0

    def set_journal(self, journal: tuple[int, ...]) -> None:
        """Set the journal's counters from the shard's row, now that it is locked."""
        self.counters.set_journal(journal)
        self._last_partition = self.counters.seq // PARTITION_SEQS
        self._front.clear()
        self._front_is_complete = False

    def _add_partitions(self, seqs: list[int]) -> None:
        for part in sorted({seq // PARTITION_SEQS for seq in seqs}):
            if part > self._last_partition:
                self.run("journal_add_partition", part * PARTITION_SEQS)
                self._last_partition = part

    def oldest_entry(self) -> OldestEntry | None:
        if not self._front and not self._front_is_complete:
            with self.transaction.pipeline():
                self.flush_entries()
                found = self.run("journal_oldest", self.shard_id, self.counters.first_seq, FRONT_ROWS)
            self._front = deque(OldestEntry(*columns) for columns in found.fetchall())
            self._front_is_complete = len(self._front) < FRONT_ROWS
        return self._front[0] if self._front else None

    def drop_oldest_entry(self) -> None:
        oldest = self.oldest_entry()
        if oldest is not None:
            self._front.popleft()
            self._dropped_seq = oldest.last_seq

    def entries(self, after: int, upto: int, limit: int, bytes_max: int) -> list[Entry]:
        with self.transaction.pipeline():
            self.flush_entries()
            found = self.run("journal_read", self.shard_id, after, limit, bytes_max, upto)
        return [
            Entry(epoch=epoch, last_seq=last_seq, count=count, at_ms=at_ms, worker=worker, lines=lines)
            for last_seq, epoch, at_ms, count, worker, lines in found.fetchall()
        ]

    def reached(self, after: int, upto: int, at_ms: int) -> int:
        low, high = max(after, self.counters.first_seq - 1), min(upto, self.counters.seq)
        with self.transaction.pipeline():
            self.flush_entries()
            found = self.run("journal_reached", at_ms, [self.shard_id], [low], [high])
        [(_, last_seq)] = found.fetchall()
        return max(after, min(int(last_seq), upto))

    def consumer(self, name: str) -> Consumer | None:
        found = self.run("consumer_find", self.shard_id, name).fetchone()
        return None if found is None else consumer_of(found)

    def consumers(self) -> list[Consumer]:
        if self._consumers is None:
            self._consumers = [consumer_of(found) for found in self.run("consumer_list", self.shard_id).fetchall()]
        return self._consumers

    def put_consumer(self, consumer: Consumer) -> None:
        self._consumers = None
        self.run("consumer_write", self.shard_id, consumer.name, consumer.seq, consumer.hold, consumer.seen_at_ms)

    def drop_consumer(self, name: str) -> None:
        self._consumers = None
        self.run("consumer_drop", self.shard_id, name)
