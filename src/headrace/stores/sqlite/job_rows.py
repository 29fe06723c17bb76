"""The rows of one shard in SQLite: read in batches, collected during a step, written together at its end."""

import sqlite3
from collections.abc import Callable

from headrace.model.event import Consumer, Entry
from headrace.model.finished import DeadLetter, FinishedJob
from headrace.model.job import BlockedJob, State
from headrace.model.limits import NUMBER_BITS, PRIORITY_MAX
from headrace.model.names import Shard
from headrace.model.policy import QueueConfig
from headrace.model.results import Counts, Group
from headrace.stores.engine.journal import append
from headrace.stores.engine.row_codec import (
    consumer_of,
    due_since,
    finished_job_of,
    lease_columns,
    pack,
    pack_body,
    row_of,
    unpack_blocked_job,
    unpack_dead_letter,
)
from headrace.stores.engine.rows import KeyRow, OldestEntry, WorkerRow
from headrace.stores.shared.lookup import Row
from headrace.stores.sqlite.finished_rows import KEY_BITS, SqliteFinishedRows
from headrace.stores.sqlite.shard_counters import COUNTS, SqliteShardCounters
from headrace.stores.sqlite.sql import json_array, read_page, sql

SEQ_MAX = (1 << KEY_BITS) - 1


class SqliteRows:
    """Jobs and finished jobs are read and written in batches; the other rows are few and go to the file at once."""

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
        self.connection = connection
        self.run = connection.execute
        self.shard = shard
        self.shard_id = shard_id
        self.counters = SqliteShardCounters(stored)
        self.finished = SqliteFinishedRows(connection, shard_id, self.counters)
        self.base = shard_id << KEY_BITS
        self.config = config
        self.fast = fast
        """Whether this step may try fast paths."""
        self._stored = stored
        self._fail_queue = fail_queue
        self._jobs: dict[str, Row | None] = {}
        self._dirty: dict[str, bool] = {}

    def fail_queue(self) -> "SqliteRows":
        return self._fail_queue()

    def load(self, ids: list[str]) -> None:
        wanted = [id for id in ids if id not in self._jobs]
        for id in wanted:
            self._jobs[id] = None
        if self.counters.ready or self.counters.later or self.counters.active:
            self._keep(self.run(sql("job_load"), (self.shard_id, json_array(wanted))))

    def seal(self, ids: list[str]) -> None:
        pass  # a step of SQLite has no others beside it

    def job(self, id: str) -> Row | None:
        if id not in self._jobs:
            self.load([id])
        return self._jobs[id]

    def put(self, row: Row) -> None:
        id = row.record.id
        old = self.job(id)
        self.counters.count(old, -1)
        self.counters.count(row, 1)
        # A delivery changes only its own columns, unless the job itself is still unwritten.
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
                written.append((self.shard_id, *_columns_of(row)))
        self._dirty = {}
        many = self.connection.executemany
        if dropped:
            many(sql("job_drop"), dropped)
        if leased:
            many(sql("job_write_lease"), leased)
        if written:
            many(sql("job_write"), written)

    def forget(self) -> None:
        """Write the changes and drop the read jobs: the next call reads them anew."""
        self.flush()
        self.finished.flush()
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

    # Blocked jobs.

    def blocked_job(self, id: str) -> BlockedJob | None:
        if not self.counters.blocked:
            return None
        found = self.run(sql("blocked_job_find"), (self.shard_id, id)).fetchone()
        return None if found is None else unpack_blocked_job(found[0])

    def put_blocked_job(self, blocked_job: BlockedJob) -> None:
        if self.blocked_job(blocked_job.record.id) is None:
            self.counters.blocked += 1
        self.run(sql("blocked_job_write"), (self.shard_id, blocked_job.record.id, pack(blocked_job)))

    def drop_blocked_job(self, id: str) -> None:
        if self.counters.blocked:
            self.counters.blocked -= self.run(sql("blocked_job_drop"), (self.shard_id, id)).rowcount

    # Idempotency keys.

    def key(self, id: str, key: str) -> KeyRow | None:
        found = self.run(sql("idempotency_key_find"), (self.shard_id, id, key)).fetchone()
        return None if found is None else KeyRow(*found)

    def put_key(self, id: str, key: str, row: KeyRow) -> None:
        self.run(sql("idempotency_key_write"), (self.shard_id, id, key, row.fingerprint, row.until_ms))

    def sweep_keys(self, now_ms: int, limit: int) -> int:
        return self.run(sql("idempotency_key_sweep"), (self.shard_id, self.shard_id, now_ms, limit)).rowcount

    # Finished jobs.

    def finished_job(self, id: str) -> FinishedJob | None:
        return self.finished.find(id)

    def put_finished_job(self, finished_job: FinishedJob) -> None:
        self.finished.put(finished_job)

    def drop_finished_job(self, id: str) -> None:
        self.finished.drop(id)

    def sweep_finished_jobs(self, now_ms: int, keep_max: int, limit: int) -> int:
        return self.finished.sweep(now_ms, keep_max, limit)

    def scan_finished_jobs(self, after_id: str, limit: int, bytes_max: int | None) -> tuple[list[FinishedJob], bool]:
        return self.finished.scan(after_id, limit, bytes_max)

    # Dead letters.

    def dead_letter(self, number: int) -> DeadLetter | None:
        found = self.run(sql("dead_letter_find"), (self.shard_id, number)).fetchone()
        return None if found is None else unpack_dead_letter(found[0])

    def newest_dead_letter(self, id: str) -> DeadLetter | None:
        found = self.run(sql("dead_letter_newest"), (self.shard_id, id)).fetchone()
        return None if found is None else unpack_dead_letter(found[0])

    def dead_letters_of(self, id: str) -> list[DeadLetter]:
        if not self.counters.dead:
            return []
        return [unpack_dead_letter(body) for (body,) in self.run(sql("dead_letter_of_id"), (self.shard_id, id))]

    def dead_letters(self, after: int, limit: int) -> list[DeadLetter]:
        return [
            unpack_dead_letter(body) for (body,) in self.run(sql("dead_letter_list"), (self.shard_id, after, limit))
        ]

    def scan_dead_letters(self, after: int, limit: int, bytes_max: int) -> tuple[list[DeadLetter], bool]:
        found, more = read_page(self.run(sql("dead_letter_list"), (self.shard_id, after, limit)), limit, bytes_max)
        return [unpack_dead_letter(body) for (body,) in found], more

    def put_dead_letter(self, dead_letter: DeadLetter) -> None:
        self.counters.dead += 1
        columns = (
            self.shard_id,
            dead_letter.key.number,
            dead_letter.record.id,
            dead_letter.until_ms,
            pack(dead_letter),
        )
        self.run(sql("dead_letter_write"), columns)

    def drop_dead_letter(self, number: int) -> None:
        self.counters.dead -= self.run(sql("dead_letter_drop"), (self.shard_id, number)).rowcount

    def dead_letters_over(self, now_ms: int, keep_max: int, limit: int) -> list[DeadLetter]:
        over: list[DeadLetter] = []
        for dead_letter in self.dead_letters(0, min(limit, max(self.counters.dead, 0))):
            if self.counters.dead - len(over) <= keep_max and dead_letter.until_ms > now_ms:
                break
            over.append(dead_letter)
        return over

    # Workers.

    def worker(self, name: str) -> WorkerRow | None:
        found = self.run(sql("worker_find"), (self.shard_id, name)).fetchone()
        return None if found is None else WorkerRow(*found)

    def put_worker(self, name: str, row: WorkerRow) -> None:
        self.run(sql("worker_write"), (self.shard_id, name, row.nonce, row.seen_at_ms))

    def sweep_workers(self, before_ms: int, limit: int) -> int:
        return self.run(sql("worker_sweep"), (self.shard_id, self.shard_id, before_ms, limit)).rowcount

    def workers(self) -> list[tuple[str, WorkerRow]]:
        found = self.run(sql("worker_list"), (self.shard_id,))
        return [(name, WorkerRow(nonce, seen_at_ms)) for name, nonce, seen_at_ms in found]

    # Journal.

    def append(self, lines: bytes, count: int, now_ms: int, worker: str | None) -> None:
        append(self, lines, count, now_ms, worker)

    def number(self) -> None:
        pass  # `append` has numbered it

    def put_entry(self, entry: Entry) -> None:
        columns = (self.base + entry.last_seq, entry.count, entry.epoch, entry.at_ms, entry.worker, entry.lines)
        self.run(sql("journal_write"), columns)

    def oldest_entry(self) -> OldestEntry | None:
        found = self.run(sql("journal_oldest"), (self.base, self.base + SEQ_MAX)).fetchone()
        return None if found is None else OldestEntry(found[0] - self.base, found[1], found[2])

    def drop_oldest_entry(self) -> None:
        oldest = self.oldest_entry()
        if oldest is not None:
            self.run(sql("journal_drop"), (self.base + oldest.last_seq,))

    def entries(self, after: int, upto: int, limit: int, bytes_max: int) -> list[Entry]:
        found: list[Entry] = []
        base = self.base
        keys = (base + min(after, SEQ_MAX) + 1, base + SEQ_MAX)
        for key, count, epoch, at_ms, worker, lines in self.run(sql("journal_read"), (*keys, limit)):
            last_seq = key - base
            if last_seq - count >= upto or bytes_max <= 0:
                break
            found.append(Entry(epoch=epoch, last_seq=last_seq, count=count, at_ms=at_ms, worker=worker, lines=lines))
            bytes_max -= len(lines)
        return found

    def reached(self, after: int, upto: int, at_ms: int) -> int:
        low, high = max(after, self.counters.first_seq - 1), min(upto, self.counters.seq)
        while low < high:
            middle = (low + high + 1) // 2
            keys = (self.base + middle, self.base + SEQ_MAX)
            key, count, written_at_ms = self.run(sql("journal_at"), keys).fetchone()
            if written_at_ms <= at_ms:
                low = key - self.base
            else:
                high = min(key - self.base - count, middle - 1)  # an entry may be missing
        return max(after, min(low, upto))

    def consumer(self, name: str) -> Consumer | None:
        found = self.run(sql("consumer_find"), (self.shard_id, name)).fetchone()
        return None if found is None else consumer_of(found)

    def consumers(self) -> list[Consumer]:
        return [consumer_of(found) for found in self.run(sql("consumer_list"), (self.shard_id,))]

    def put_consumer(self, consumer: Consumer) -> None:
        columns = (self.shard_id, consumer.name, consumer.seq, consumer.hold, consumer.seen_at_ms)
        self.run(sql("consumer_write"), columns)

    def drop_consumer(self, name: str) -> None:
        self.run(sql("consumer_drop"), (self.shard_id, name))

    # Counts and lists.

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

    # Views.

    def ready_page(self, after_order_key: int, limit: int) -> list[Row]:
        return self._page("job_page_ready", after_order_key, limit)

    def later_page(self, after: tuple[int, str], limit: int) -> list[Row]:
        return self._page("job_page_later", *after, limit)

    def active_page(self, after: tuple[int, str], limit: int) -> list[tuple[Row, BlockedJob | None]]:
        return [(row, self.blocked_job(row.record.id)) for row in self._page("job_page_active", *after, limit)]

    def _page(self, name: str, *bounds: int | str) -> list[Row]:
        self.flush()
        return [row_of(columns) for columns in self.run(sql(name), (self.shard_id, *bounds))]

    def finished_page(self, pinned: bool, below: int, limit: int) -> list[tuple[int, FinishedJob]]:
        return self.finished.page(pinned, below, limit)

    def dead_page(self, below: int, limit: int) -> list[DeadLetter]:
        found = self.run(sql("dead_letter_page"), (self.shard_id, below, limit))
        return [unpack_dead_letter(body) for (body,) in found]

    def ready_before(self, order_key: int, most: int) -> int:
        self.flush()
        return int(self.run(sql("job_ready_before"), (self.shard_id, order_key, most)).fetchone()[0])

    def waiting_count(self) -> int:
        return self.counters.ready + self.counters.later + self.counters.blocked

    def ids_in(self, state: State, after_id: str, limit: int) -> list[str]:
        self.flush()
        self.finished.flush()
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

    def id_behind(self, group: Group, after_id: str, count: int) -> str | None:
        self.flush()
        self.finished.flush()
        name = "job_id_behind" if group == "alive" else "finished_job_id_behind"
        found = self.run(sql(name), (self.shard_id, after_id, count - 1)).fetchone()
        return None if found is None else str(found[0])

    def scan_jobs(self, after_id: str, limit: int, bytes_max: int | None) -> tuple[list[Row], bool]:
        self.flush()
        arguments = (bytes_max is not None, self.shard_id, after_id, limit)
        found, more = read_page(self.run(sql("job_scan"), arguments), limit, bytes_max)
        return [row_of(columns) for columns in found], more

    def everything(self) -> tuple[list[Row], list[BlockedJob], list[FinishedJob], list[DeadLetter]]:
        self.flush()
        self.finished.flush()
        shard = (self.shard_id,)
        return (
            [row_of(columns) for columns in self.run(sql("job_all"), shard)],
            [unpack_blocked_job(body) for (body,) in self.run(sql("blocked_job_all"), shard)],
            [finished_job_of(columns) for columns in self.run(sql("finished_job_all"), shard)],
            self.dead_letters(0, self.counters.dead),
        )

    # Integrity.

    def leases_over(self, now_ms: int, limit: int) -> int:
        return len(self.run(sql("job_leases_over"), (self.shard_id, now_ms, limit)).fetchall())

    def stranded(self, after_id: str, limit: int) -> list[str]:
        return [id for (id,) in self.run(sql("blocked_job_stranded"), (self.shard_id, after_id, limit))]

    def kept(self) -> dict[str, int]:
        return self.counters.kept()

    def counted(self) -> dict[str, int]:
        found = self.run(sql("shard_count"), {"shard_id": self.shard_id}).fetchone()
        return dict(zip(COUNTS, found, strict=True))

    def recount(self, counted: dict[str, int]) -> None:
        for name, number in counted.items():
            setattr(self.counters, name, number)

    def erase(self, limit: int) -> int:
        shard = self.shard_id
        erased_jobs = self.run(sql("finished_job_erase"), (shard, limit)).fetchall()
        for state, pinned in erased_jobs:
            self.counters.count_finished(state, pinned, -1)
        dead_letters = self.run(sql("dead_letter_erase"), (shard, limit - len(erased_jobs))).rowcount
        self.counters.dead -= dead_letters
        erased = len(erased_jobs) + dead_letters
        for name in ("idempotency_key_erase", "worker_erase", "consumer_erase"):
            erased += self.run(sql(name), (shard, shard, limit - erased)).rowcount
        return erased

    def write_back(self) -> None:
        """Write the changes of the step."""
        self.flush()
        self.finished.flush()
        stored = self.counters.stored()
        if stored != self._stored:
            self.run(sql("shard_write"), (*stored, self.shard_id))
            self._stored = stored


def _columns_of(row: Row) -> tuple[object, ...]:
    """The columns of a job, in the order of job_load."""
    record = row.record
    lease = (None, None, None, None) if row.delivery is None else lease_columns(row.delivery)
    body = pack_body(record, record.enqueued_at_ms)
    return (record.id, record.order_key, record.run_at_ms, *lease, body, record.payload)
