"""The rows of one shard in PostgreSQL: numbering, counts, and the order in which a step is written back."""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.model.finished import DeadLetter, FinishedJob
from headrace.model.job import BlockedJob, State
from headrace.model.limits import INBOX_PER_ROUND_MAX, JOURNAL_TRIM_PER_CALL_MAX, NUMBER_BITS
from headrace.model.names import Shard
from headrace.model.policy import QueueConfig
from headrace.model.results import Counts
from headrace.stores.engine.journal import number, trim
from headrace.stores.engine.row_codec import due_since, finished_job_of, row_of, unpack_blocked_job, unpack_dead_letter
from headrace.stores.postgres.counters import COUNTS, JOURNAL, PostgresShardCounters, Sequences
from headrace.stores.postgres.finished_rows import PostgresFinishedRows
from headrace.stores.postgres.job_rows import PostgresJobRows
from headrace.stores.postgres.journal_rows import PARTITION_SEQS, PostgresJournalRows
from headrace.stores.postgres.sql import LazyTransaction
from headrace.stores.shared.lookup import Row


class PostgresRows(PostgresJobRows, PostgresFinishedRows, PostgresJournalRows):
    """Rows are locked as they are read by a step that writes; the shard's own row is locked by `number` alone."""

    def __init__(
        self,
        transaction: LazyTransaction,
        shard: Shard,
        stored: tuple[int, ...],
        config: QueueConfig,
        sequences: Sequences,
        fail_queue: Callable[[], "PostgresRows"],
    ) -> None:
        shard_id, unnumbered_calls, *columns = stored
        counters = PostgresShardCounters(tuple(columns[: len(JOURNAL)]), tuple(columns[len(JOURNAL) :]), sequences)
        super().__init__(transaction, shard_id, counters, sequences)
        self.unnumbered_calls = unnumbered_calls
        self.shard = shard
        self.config = config
        self._fail_queue = fail_queue

    def fail_queue(self) -> "PostgresRows":
        return self._fail_queue()

    def number(self) -> None:
        if not self.transaction.writes and not self.unnumbered_calls:
            return
        with self.transaction.pipeline():
            self.write_inbox(self.take_inbox_columns())
            locked = self.run("shard_lock", self.shard_id)
            first = self.run("inbox_read", self.shard_id, INBOX_PER_ROUND_MAX)
        self.use_locked_row(locked.fetchall()[0])
        found = first.fetchall()
        while found:
            self.fold(found)
            with self.transaction.pipeline():
                self.flush_entries()
                following = self.run("inbox_read", self.shard_id, INBOX_PER_ROUND_MAX)
            found = following.fetchall()
        self.end_numbering()

    def use_locked_row(self, stored: tuple[int, ...]) -> None:
        """Set counters from the shard's row, now that it is locked."""
        if self.folded_counts is None:
            self.set_journal(stored[: len(JOURNAL)])
            self.folded_counts = stored[len(JOURNAL) :]

    def end_numbering(self) -> None:
        """Set the counts to those folded into the shard's row: the inbox is empty now."""
        self.counters.set_counts(self.folded_counts or ())
        self.unnumbered_calls = 0

    def try_number(self) -> bool:
        """Number the inbox unless another transaction is numbering it; returns whether the journal grew into a new
        partition."""
        if not self.run("shard_try_lock", self.shard_id).fetchall():
            return False
        partition = self.counters.seq // PARTITION_SEQS
        self.number()
        return self.counters.seq // PARTITION_SEQS > partition

    def fold(self, calls: Sequence[Sequence[Any]]) -> None:
        """Number calls of the inbox and fold their counts; their lines stay on the server."""
        folded_counts = list(self.folded_counts or ())
        for ticket, now_ms, count, size, *deltas in calls:
            folded_counts = [old + delta for old, delta in zip(folded_counts, deltas, strict=True)]
            if count:
                number(self.counters, count, size, now_ms)
            self.move_to_journal(ticket, count, size)
            if count:
                trim(self, now_ms, JOURNAL_TRIM_PER_CALL_MAX)
        self.folded_counts = tuple(folded_counts)

    def counts(self, now_ms: int) -> Counts:
        counters = self.counters
        return Counts(
            counters.ready + counters.later,
            counters.later,
            counters.blocked,
            counters.active,
            counters.done,
            counters.cancelled,
            counters.dead,
            self._oldest_due_ms(now_ms),
        )

    def _oldest_due_ms(self, now_ms: int) -> int | None:
        found = self.run_flushed(
            "job_oldest", self.shard_id, NUMBER_BITS, NUMBER_BITS, self.shard_id, now_ms
        ).fetchall()
        return min((due_since(run_at_ms, body) for run_at_ms, body in found), default=None)

    def ready_page(self, after_order_key: int, limit: int) -> list[Row]:
        return [row for row, _ in self._page("job_page_ready", after_order_key, limit)]

    def later_page(self, after: tuple[int, str], limit: int) -> list[Row]:
        return [row for row, _ in self._page("job_page_later", *after, limit)]

    def active_page(self, after: tuple[int, str], limit: int) -> list[tuple[Row, BlockedJob | None]]:
        return self._page("job_page_active", *after, limit)

    def _page(self, name: str, *bounds: int | str) -> list[tuple[Row, BlockedJob | None]]:
        return [
            (row_of(columns[:-1]), None if columns[-1] is None else unpack_blocked_job(columns[-1]))
            for columns in self.run_flushed(name, self.shard_id, *bounds).fetchall()
        ]

    def finished_page(self, pinned: bool, below: int, limit: int) -> list[tuple[int, FinishedJob]]:
        self.flush_finished_jobs()
        name = "finished_job_page_pinned" if pinned else "finished_job_page_unpinned"
        found = self.run(name, self.shard_id, below, limit).fetchall()
        return [(number, finished_job_of(tuple(columns))) for number, *columns in found]

    def dead_page(self, below: int, limit: int) -> list[DeadLetter]:
        self.flush_dead_letters()
        found = self.run("dead_letter_page", self.shard_id, below, limit).fetchall()
        return [unpack_dead_letter(body) for (body,) in found]

    def ready_before(self, order_key: int, most: int) -> int:
        return int(self.run_flushed("job_ready_before", self.shard_id, order_key, most).fetchall()[0][0])

    def waiting_count(self) -> int:
        return self.counters.ready + self.counters.later + self.counters.blocked

    def ids_in(self, state: State, after_id: str, limit: int) -> list[str]:
        match state:
            case State.WAITING:
                found = self.run_flushed("job_ids_waiting", self.shard_id, after_id, limit)
            case State.ACTIVE:
                found = self.run_flushed("job_ids_active", self.shard_id, after_id, limit)
            case State.BLOCKED:
                found = self.run_flushed("job_ids_blocked", self.shard_id, after_id, limit)
            case _:
                self.flush_finished_jobs()
                found = self.run("finished_job_ids", self.shard_id, after_id, state.value, limit)
        return [id for (id,) in found.fetchall()]

    def everything(self) -> tuple[list[Row], list[BlockedJob], list[FinishedJob], list[DeadLetter]]:
        with self.transaction.pipeline():
            self.write_back()
            jobs = self.run("job_all", self.shard_id)
            finished_jobs = self.run("finished_job_all", self.shard_id)
            dead_letters = self.run("dead_letter_all", self.shard_id)
        found = jobs.fetchall()
        return (
            [row_of(columns[:-1]) for columns in found],
            [unpack_blocked_job(columns[-1]) for columns in found if columns[-1] is not None],
            [finished_job_of(columns) for columns in finished_jobs.fetchall()],
            [unpack_dead_letter(body) for (body,) in dead_letters.fetchall()],
        )

    def erase(self, limit: int) -> int:
        erased_states = self.run("finished_job_erase", self.shard_id, limit).fetchall()
        for state, pinned in erased_states:
            self.counters.count_finished(state, pinned, -1)
        dead_letters = self.run("dead_letter_erase", self.shard_id, limit - len(erased_states)).rowcount
        self.counters.dead -= dead_letters
        erased = len(erased_states) + dead_letters
        for name in ("key_erase", "worker_erase", "consumer_erase"):
            erased += self.run(name, self.shard_id, limit - erased).rowcount
        return erased

    def kept(self) -> dict[str, int]:
        return {name: getattr(self.counters, name) for name in COUNTS}

    def counted(self) -> dict[str, int]:
        # One statement, so one snapshot: a concurrent call shows both its rows and its counts in the inbox, or neither.
        found = self.run_flushed("shard_count", *[self.shard_id] * 9).fetchall()[0]
        return dict(zip(COUNTS, found, strict=True))

    def recount(self, counted: dict[str, int]) -> None:
        assert self.folded_counts is not None  # numbering has locked the shard's row
        kept = dict(zip(COUNTS, self.folded_counts, strict=True)) | counted
        self.folded_counts = tuple(kept[name] for name in COUNTS)
        self.counters.set_counts(self.folded_counts)

    def write_back(self) -> None:
        """Write the changes of the step except those that go to the inbox; in one round trip inside `pipeline`."""
        self.flush()
        self.flush_finished_jobs()
        self.flush_dead_letters()
        self.flush_keys()
        self.flush_workers()
        self.flush_entries()
        if self.folded_counts is not None:
            self.run("shard_write", *self.counters.journal(), *self.folded_counts, self.shard_id)
