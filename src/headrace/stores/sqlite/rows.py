"""The rows of one shard in SQLite: read in batches, kept while the step lasts, written back at once."""

import sqlite3
from collections.abc import Callable

from headrace.model.finished import DeadLetter, FinishedJob
from headrace.model.job import BlockedJob, State
from headrace.model.limits import NUMBER_BITS, PRIORITY_MAX
from headrace.model.names import Shard
from headrace.model.queue_config import QueueConfig
from headrace.model.results import Counts
from headrace.stores.engine.journal_entries import append
from headrace.stores.engine.row_codec import due_since, finished_job_of, lease_columns, row_of, unpack_blocked_job
from headrace.stores.shared.lookup import Row
from headrace.stores.sqlite.finished_rows import SqliteDeadLetterRows, SqliteFinishedRows
from headrace.stores.sqlite.journal_rows import SqliteIntegrityRows, SqliteJournalRows
from headrace.stores.sqlite.marks import SqliteKeyRows
from headrace.stores.sqlite.packing import columns_of, json_array
from headrace.stores.sqlite.sql import sql


class SqliteRows(SqliteFinishedRows, SqliteDeadLetterRows, SqliteKeyRows, SqliteJournalRows, SqliteIntegrityRows):
    """Jobs and finished jobs that a step touches are kept here and written together; the rest goes straight to the
    file."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        shard: Shard,
        shard_id: int,
        stored: tuple[int, ...],
        config: QueueConfig,
        fail_queue: Callable[[], "SqliteRows"],
        fast: bool,
    ) -> None:
        super().__init__(connection, shard_id, stored)
        self.shard = shard
        self.config = config
        self.fast = fast
        """Whether fast paths may be tried in this step."""
        self._stored = stored
        self._fail_queue = fail_queue
        self._jobs: dict[str, Row | None] = {}
        self._dirty: dict[str, bool] = {}

    def fail_queue(self) -> "SqliteRows":
        return self._fail_queue()

    def append(self, lines: bytes, count: int, now_ms: int, worker: str | None) -> None:
        append(self, lines, count, now_ms, worker)

    def number(self) -> None:
        pass  # numbered as it was appended

    def load(self, ids: list[str]) -> None:
        wanted = [id for id in ids if id not in self._jobs]
        for id in wanted:
            self._jobs[id] = None
        if self.counters.ready or self.counters.later or self.counters.active:
            self._keep(self.run(sql("job_load"), (self.shard_id, json_array(wanted))))

    def seal(self, ids: list[str]) -> None:
        pass  # a step is alone anyway

    def job(self, id: str) -> Row | None:
        if id not in self._jobs:
            self.load([id])
        return self._jobs[id]

    def put(self, row: Row) -> None:
        id = row.record.id
        old = self.job(id)
        self.counters.count(old, -1)
        self.counters.count(row, 1)
        # A delivery changes only its own columns, unless the job itself is still to be written.
        lease_only = row.delivery is not None and old is not None and self._dirty.get(id, True)
        self._jobs[id] = row
        self._dirty[id] = lease_only

    def drop(self, id: str) -> None:
        old = self.job(id)
        if old is not None:
            self.counters.count(old, -1)
            self._jobs[id] = None
            self._dirty[id] = False

    def flush(self) -> None:
        """Write the jobs that the step has changed so far."""
        if not self._dirty:
            return
        written, leased, dropped = [], [], []
        for id, lease_only in self._dirty.items():
            row = self._jobs[id]
            if row is None:
                dropped.append((self.shard_id, id))
            elif lease_only and row.delivery is not None:
                leased.append((*lease_columns(row.delivery), self.shard_id, id))
            else:
                written.append((self.shard_id, *columns_of(row)))
        self._dirty = {}
        many = self.connection.executemany
        if dropped:
            many(sql("job_drop"), dropped)
        if leased:
            many(sql("job_write_lease"), leased)
        if written:
            many(sql("job_write"), written)

    def forget(self) -> None:
        """Write what was changed and read anew whatever is asked for next."""
        self.flush()
        self.flush_finished_jobs()
        self._jobs = {}

    def _keep(self, found: sqlite3.Cursor) -> list[Row]:
        rows = []
        for columns in found:
            row = row_of(columns)
            self._jobs[row.record.id] = row
            rows.append(row)
        return rows

    def overdue(self, now_ms: int, limit: int) -> list[Row]:
        return self._ordered("job_overdue", now_ms, limit) if self.counters.active else []

    def due(self, now_ms: int, limit: int) -> list[Row]:
        return self._ordered("job_due", now_ms, limit) if self.counters.later else []

    def ready(self, after_order_key: int, limit: int) -> list[Row]:
        return self._ordered("job_ready", after_order_key, limit) if self.counters.ready else []

    def _ordered(self, name: str, bound: int | str, limit: int) -> list[Row]:
        self.flush()
        return self._keep(self.run(sql(name), (self.shard_id, bound, limit)))

    def next_later_ms(self) -> int | None:
        found = self._first_later() if self.counters.later else None
        return None if found is None else found[0]

    def _first_later(self) -> tuple[int, bytes] | None:
        self.flush()
        found: tuple[int, bytes] | None = self.run(sql("job_first_later"), (self.shard_id,)).fetchone()
        return found

    def next_lease_end_ms(self) -> int | None:
        self.flush()
        found = self.run(sql("job_first_lease"), (self.shard_id,)).fetchone() if self.counters.active else None
        return None if found is None else int(found[0])

    def of_nonce(self, nonce: str) -> list[Row]:
        self.flush()
        return self._keep(self.run(sql("job_of_nonce"), (self.shard_id, nonce)))

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
        self.flush()
        firsts: list[int] = []
        for rank in range(PRIORITY_MAX + 1 if self.counters.ready else 0):
            order_keys = (self.shard_id, rank << NUMBER_BITS, (rank + 1 << NUMBER_BITS) - 1)
            firsts += (due_since(*each) for each in self.run(sql("job_first_ready"), order_keys))
        later = self._first_later() if self.counters.later else None
        if later is not None and later[0] <= now_ms:
            firsts.append(due_since(*later))
        return min(firsts, default=None)

    def held(self) -> int:
        return self.counters.ready + self.counters.later + self.counters.blocked

    def ids_in(self, state: State, after_id: str, limit: int) -> list[str]:
        self.flush()
        self.flush_finished_jobs()
        match state:
            case State.WAITING:
                found = self.run(sql("job_ids_waiting"), (self.shard_id, after_id, limit))
            case State.ACTIVE:
                found = self.run(sql("job_ids_active"), (self.shard_id, after_id, limit))
            case State.BLOCKED:
                found = self.run(sql("blocked_job_ids"), (self.shard_id, after_id, limit))
            case _:
                found = self.run(sql("finished_job_ids"), (self.shard_id, after_id, state.value, limit))
        return [id for (id,) in found]

    def scan_jobs(self, after_id: str, limit: int, bytes_max: int) -> tuple[list[Row], bool]:
        self.flush()
        found, more = self.part("job_scan", after_id, limit, bytes_max)
        return [row_of(columns) for columns in found], more

    def everything(self) -> tuple[list[Row], list[BlockedJob], list[FinishedJob], list[DeadLetter]]:
        self.flush()
        self.flush_finished_jobs()
        shard = (self.shard_id,)
        return (
            [row_of(columns) for columns in self.run(sql("job_all"), shard)],
            [unpack_blocked_job(body) for (body,) in self.run(sql("blocked_job_all"), shard)],
            [finished_job_of(columns) for columns in self.run(sql("finished_job_all"), shard)],
            self.dead_letters(0, self.counters.dead),
        )

    def erase(self, limit: int) -> int:
        shard = self.shard_id
        gone = self.run(sql("finished_job_erase"), (shard, limit)).fetchall()
        for state, pinned in gone:
            self.counters.ended(state, pinned, -1)
        dead_letters = self.run(sql("dead_letter_erase"), (shard, limit - len(gone))).rowcount
        self.counters.dead -= dead_letters
        erased = len(gone) + dead_letters
        for name in ("idempotency_key_erase", "worker_erase", "consumer_erase"):
            erased += self.run(sql(name), (shard, shard, limit - erased)).rowcount
        return erased

    def write_back(self) -> None:
        """Write what the step changed."""
        self.flush()
        self.flush_finished_jobs()
        stored = self.counters.stored()
        if stored != self._stored:
            self.run(sql("shard_write"), (*stored, self.shard_id))
            self._stored = stored
