"""The counters of a shard: those in its row, those drawn from sequences, and the changes that go to its inbox."""

from collections import deque

from headrace.stores.engine.rows import ShardCounters
from headrace.stores.postgres.sql import LazyTransaction
from headrace.stores.shared.lookup import Row

JOURNAL: tuple[str, ...] = ("epoch", "seq", "at_ms", "first_seq", "journal_bytes", "oldest_at_ms")
COUNTS: tuple[str, ...] = ("ready", "later", "blocked", "active", "done", "cancelled", "dead", "unpinned")
DRAWN_AT_ONCE = 8


class SequenceBatch:
    """Numbers drawn from a sequence in this transaction, ascending; numbers left over are never used."""

    def __init__(self, transaction: LazyTransaction, sequence: str) -> None:
        self._transaction = transaction
        self._sequence = sequence
        self._drawn: deque[int] = deque()
        self.last = 0

    def __len__(self) -> int:
        return len(self._drawn)

    def add(self, drawn: list[int]) -> None:
        """Add numbers that a statement has drawn."""
        self._drawn.extend(drawn)

    def advance(self) -> None:
        """Make the next number the last one."""
        if not self._drawn:
            self.add([number for (number,) in self._transaction.run("next_numbers", self._sequence, DRAWN_AT_ONCE)])
        self.last = self._drawn.popleft()


class Sequences:
    """The sequences of a store within one transaction."""

    def __init__(self, transaction: LazyTransaction) -> None:
        self.number = SequenceBatch(transaction, "next_number")
        self.fence = SequenceBatch(transaction, "next_fence")
        self.dead_letter = SequenceBatch(transaction, "next_dead_letter")


class PostgresShardCounters(ShardCounters):
    """Counting up `number`, `fence` or `dead_letter` draws the next one. The counts are those of the shard's row plus
    the changes in the inbox and those of this step."""

    __slots__ = ("_sequences", "active", "base", "blocked", "cancelled", "dead", "done", "later", "ready", "unpinned")
    ready: int
    later: int
    blocked: int
    active: int
    done: int
    cancelled: int
    dead: int
    unpinned: int

    def __init__(self, journal: tuple[int, ...], counts: tuple[int, ...], sequences: Sequences) -> None:
        self._sequences = sequences
        self.set_journal(journal)
        self.set_counts(counts)

    def set_journal(self, journal: tuple[int, ...]) -> None:
        """Set the columns of the journal."""
        for column, value in zip(JOURNAL, journal, strict=True):
            setattr(self, column, value)

    def set_counts(self, counts: tuple[int, ...]) -> None:
        """Set the counts; changes are counted from here."""
        self.base = counts
        for column, value in zip(COUNTS, counts, strict=True):
            setattr(self, column, value)

    def journal(self) -> tuple[int, ...]:
        """The columns of the journal."""
        return tuple(getattr(self, column) for column in JOURNAL)

    def take_deltas(self) -> tuple[int, ...]:
        """The changes of the counts since the last call."""
        now = tuple(getattr(self, column) for column in COUNTS)
        deltas = tuple(new - old for new, old in zip(now, self.base, strict=True))
        self.base = now
        return deltas

    @property
    def number(self) -> int:
        return self._sequences.number.last

    @number.setter
    def number(self, _: int) -> None:
        self._sequences.number.advance()

    @property
    def fence(self) -> int:
        return self._sequences.fence.last

    @fence.setter
    def fence(self, _: int) -> None:
        self._sequences.fence.advance()

    @property
    def dead_letter(self) -> int:
        return self._sequences.dead_letter.last

    @dead_letter.setter
    def dead_letter(self, _: int) -> None:
        self._sequences.dead_letter.advance()

    def count_job(self, row: Row | None, by: int) -> None:
        """Count a job in or out."""
        if row is None:
            return
        if row.delivery is not None:
            self.active += by
        elif row.record.order_key is not None:
            self.ready += by
        else:
            self.later += by

    def count_finished(self, state: str, pinned: bool, by: int) -> None:
        """Count a finished job in or out."""
        if state == "done":
            self.done += by
        else:
            self.cancelled += by
        if not pinned:
            self.unpinned += by


class PostgresShard:
    """A shard in one transaction, and its counters."""

    def __init__(
        self, transaction: LazyTransaction, shard_id: int, counters: PostgresShardCounters, sequences: Sequences
    ) -> None:
        self.transaction = transaction
        self.run = transaction.run
        self.shard_id = shard_id
        self.counters = counters
        self.sequences = sequences
        self.batch_ids: list[str] = []
        """The ids of the step: a lookup of one of them looks up all."""
