"""The jobs of a shard, its idempotency keys and its workers: locked and read in batches, written at once."""

from typing import Any, NamedTuple

from headrace.model.job import BlockedJob
from headrace.model.results import Group
from headrace.stores.engine.row_codec import (
    lease_columns,
    pack,
    pack_body,
    row_of,
    unpack_blocked_job,
)
from headrace.stores.engine.rows import BYTES_MAX, KeyRow, WorkerRow, part_of
from headrace.stores.postgres.counters import PostgresShard, PostgresShardCounters, Sequences
from headrace.stores.postgres.sql import Cursor, LazyTransaction
from headrace.stores.shared.lookup import Row


class NextDue(NamedTuple):
    """The first lease end, the first time of a later job and the first order key of a ready one."""

    lease_end_ms: int | None
    later_ms: int | None
    order_key: int | None


class PostgresJobRows(PostgresShard):
    """Changes of the step are kept here until a statement has to see them in the table."""

    def __init__(
        self, transaction: LazyTransaction, shard_id: int, counters: PostgresShardCounters, sequences: Sequences
    ) -> None:
        super().__init__(transaction, shard_id, counters, sequences)
        self.locks_ready = False
        """Whether `ready` locks the jobs that it reads: true while they are handed out."""
        self._jobs: dict[str, Row | None] = {}
        self._blocked_jobs: dict[str, BlockedJob] = {}
        self._stored: dict[str, tuple[bytes, bytes]] = {}
        self._changed: dict[str, None] = {}
        self._next_due: NextDue | None = None
        self._ready_end: int | None = None
        self._keys: dict[tuple[str, str], KeyRow | None] = {}
        self._new_keys: dict[tuple[str, str], KeyRow] = {}
        self._stored_keys: set[tuple[str, str]] = set()
        self._workers: dict[str, WorkerRow | None] = {}
        self._stored_workers: set[str] = set()
        self._new_workers: set[str] = set()

    def load(self, ids: list[str]) -> None:
        self.batch_ids = ids
        missing = self.missing(ids)
        if missing:
            name = "job_lock" if self.transaction.writes else "job_load"
            self.add_found(missing, self.run(name, [self.shard_id] * len(missing), missing).fetchall())

    def seal(self, ids: list[str]) -> None:
        # Insert and drop a row: then an insert of the same id waits for this transaction, and this one waits for it.
        if ids:
            with self.transaction.pipeline():
                self.run("job_reserve_ids", self.shard_id, sorted(ids))
                self.run("job_drop", self.shard_id, ids)

    def missing(self, ids: list[str]) -> list[str]:
        """The ids that were not read yet."""
        return [id for id in dict.fromkeys(ids) if id not in self._jobs]

    def add_found(self, missing: list[str], found: list[tuple[Any, ...]]) -> None:
        """Keep the rows found of missing ids; for the others, that there are none."""
        for id in missing:
            self._jobs[id] = None
        for columns in found:
            self._add(columns[1:])

    def _add(self, columns: tuple[Any, ...]) -> Row:
        *of_row, blocked_job = columns
        row = row_of(tuple(of_row))
        id = row.record.id
        self._jobs[id] = row
        self._stored[id] = (of_row[-2], of_row[-1])
        if blocked_job is not None:
            self._blocked_jobs[id] = unpack_blocked_job(blocked_job)
        return row

    def job(self, id: str) -> Row | None:
        if id not in self._jobs:
            self.load([id])
        return self._jobs[id]

    def put(self, row: Row) -> None:
        id = row.record.id
        self.counters.count_job(self.job(id), -1)
        self.counters.count_job(row, 1)
        self._jobs[id] = row
        self._change(id)

    def drop(self, id: str) -> None:
        old = self.job(id)
        if old is not None:
            self.counters.count_job(old, -1)
            self._jobs[id] = None
            self._change(id)

    def blocked_job(self, id: str) -> BlockedJob | None:
        self.job(id)
        return self._blocked_jobs.get(id)

    def put_blocked_job(self, blocked_job: BlockedJob) -> None:
        id = blocked_job.record.id
        if self.blocked_job(id) is None:
            self.counters.blocked += 1
        self._blocked_jobs[id] = blocked_job
        self._change(id)

    def drop_blocked_job(self, id: str) -> None:
        if self.blocked_job(id) is not None:
            self.counters.blocked -= 1
            del self._blocked_jobs[id]
            self._change(id)

    def _change(self, id: str) -> None:
        self._changed[id] = None
        self._next_due = None

    def flush(self) -> None:
        """Write the jobs that the step has changed so far; in one round trip inside `pipeline`."""
        if not self._changed:
            return
        new: list[tuple[object, ...]] = []
        known: list[tuple[object, ...]] = []
        dropped: list[str] = []
        for id in self._changed:
            row = self._jobs[id]
            if row is not None:
                (known if id in self._stored else new).append(self._columns(row))
            elif self._stored.pop(id, None) is not None:
                dropped.append(id)
        self._changed = {}
        self._ready_end = None
        if dropped:
            self.run("job_drop", self.shard_id, dropped)
        if known:
            self.run("job_update", self.shard_id, *map(list, zip(*known, strict=True)))
        if new:
            new.sort()  # by id, as all calls insert and lock: calls that meet wait, and never in a ring
            self.run("job_insert", self.shard_id, *map(list, zip(*new, strict=True)))

    def _columns(self, row: Row) -> tuple[object, ...]:
        """The columns of a job for `job_insert`, with None for a body or payload that is stored already."""
        record, id = row.record, row.record.id
        lease = (None, None, None, None) if row.delivery is None else lease_columns(row.delivery)
        body, payload = pack_body(record, record.enqueued_at_ms), record.payload
        old = self._stored.get(id)
        self._stored[id] = (body, payload)
        blocked_job = self._blocked_jobs.get(id)
        return (
            id,
            record.order_key,
            record.run_at_ms,
            *lease,
            None if old is not None and old[0] == body else body,
            None if old is not None and old[1] == payload else payload,
            None if blocked_job is None else pack(blocked_job),
        )

    def run_flushed(self, name: str, *args: object) -> Cursor:
        """Run a statement that has to see the changes of the step."""
        if not self._changed:
            return self.run(name, *args)
        with self.transaction.pipeline():
            self.flush()
            return self.run(name, *args)

    def next_due(self) -> NextDue:
        """The next times, read once."""
        if self._next_due is None:
            self.set_next_due(self.run_flushed("job_next_times", [self.shard_id]).fetchall()[0])
        assert self._next_due is not None  # set just now
        return self._next_due

    def set_next_due(self, columns: tuple[Any, ...]) -> None:
        """Keep the next times."""
        self._next_due = NextDue(*columns[1:])

    def overdue(self, now_ms: int, limit: int) -> list[Row]:
        end_ms = self.next_due().lease_end_ms
        if end_ms is None or end_ms > now_ms:
            return []
        return [
            self._add(columns) for columns in self.run_flushed("job_overdue", self.shard_id, now_ms, limit).fetchall()
        ]

    def due(self, now_ms: int, limit: int) -> list[Row]:
        later_ms = self.next_due().later_ms
        if later_ms is None or later_ms > now_ms:
            return []
        found = self.run_flushed("job_due", self.shard_id, now_ms, limit).fetchall()
        self.sequences.number.add([columns[-1] for columns in found])
        return [self._add(columns[:-1]) for columns in found]

    def ready(self, after_order_key: int, limit: int) -> list[Row]:
        if not self.locks_ready:
            return self._ready_unlocked(after_order_key, limit)
        if self._ready_end is not None and after_order_key >= self._ready_end:
            return []
        found = self.run_flushed("job_ready", self.shard_id, after_order_key, limit).fetchall()
        self.sequences.fence.add([columns[-1] for columns in found])
        rows = [self._add(columns[:-1]) for columns in found]
        if len(rows) < limit:  # jobs behind them were put by this step
            self._ready_end = rows[-1].record.order_key if rows else after_order_key
        return rows

    def _ready_unlocked(self, after_order_key: int, limit: int) -> list[Row]:
        if self.next_due().order_key is None:
            return []
        return self._unlocked_rows(self.run_flushed("job_ready_unlocked", self.shard_id, after_order_key, limit))

    def next_later_ms(self) -> int | None:
        return self.next_due().later_ms

    def next_lease_end_ms(self) -> int | None:
        return self.next_due().lease_end_ms

    def of_nonce(self, nonce: str) -> list[Row]:
        return self._unlocked_rows(self.run_flushed("job_of_nonce", self.shard_id, nonce))

    def _unlocked_rows(self, found: Cursor) -> list[Row]:
        # Not locked, so not cached: a job must be read again before a change.
        return [row_of(columns[:-1]) for columns in found.fetchall()]

    def id_behind(self, group: Group, after_id: str, count: int) -> str | None:
        name = "job_id_behind" if group == "alive" else "finished_job_id_behind"
        found = self.run_flushed(name, self.shard_id, after_id, count - 1).fetchone()
        return None if found is None else str(found[0])

    def scan_jobs(self, after_id: str, limit: int, bytes_max: int | None) -> tuple[list[Row], bool]:
        bounds = (bytes_max is not None, self.shard_id, after_id, limit, BYTES_MAX if bytes_max is None else bytes_max)
        found = self.run_flushed("job_scan", *bounds).fetchall()
        part, more = part_of(found, lambda columns: len(columns[-2]), limit, bytes_max)
        # Kept with their blocked jobs, which are read next; a scan changes nothing.
        return [self._add(columns) for columns in part], more

    # Idempotency keys and workers.
    def load_keys(self, keys: list[tuple[str, str]]) -> None:
        """Lock and read keys that come next, by id and key."""
        keys = sorted(set(keys))
        self._keys |= dict.fromkeys(keys)
        ids, names = [id for id, _ in keys], [name for _, name in keys]
        for id, name, fingerprint, until_ms in self.run("key_lock", self.shard_id, ids, names).fetchall():
            self._keys[id, name] = KeyRow(fingerprint, until_ms)
            self._stored_keys.add((id, name))

    def key(self, id: str, key: str) -> KeyRow | None:
        if (id, key) not in self._keys:
            self.load_keys([(id, key)])
        return self._keys[id, key]

    def put_key(self, id: str, key: str, row: KeyRow) -> None:
        self._keys[id, key] = self._new_keys[id, key] = row

    def flush_keys(self) -> None:
        """Write the keys that the step has changed so far; in one round trip inside `pipeline`."""
        columns = [(id, key, row.fingerprint, row.until_ms) for (id, key), row in self._new_keys.items()]
        known = [each for each in columns if each[:2] in self._stored_keys]
        new = [each for each in columns if each[:2] not in self._stored_keys]
        self._stored_keys.update(self._new_keys)
        self._new_keys = {}
        if known:
            self.run("key_update", self.shard_id, *map(list, zip(*known, strict=True)))
        if new:
            # A key of a concurrent call is a violation, which makes the step run again and see it.
            self.run("key_insert", self.shard_id, *map(list, zip(*new, strict=True)))

    def sweep_keys(self, now_ms: int, limit: int) -> int:
        with self.transaction.pipeline():
            self.flush_keys()
            dropped = self.run("key_sweep", self.shard_id, now_ms, limit)
        return dropped.rowcount

    def worker(self, name: str) -> WorkerRow | None:
        if name not in self._workers:
            statement = "worker_lock" if self.transaction.writes else "worker_find"
            self.add_worker(name, self.run(statement, [self.shard_id], name).fetchone())
        return self._workers[name]

    def add_worker(self, name: str, columns: tuple[int, str, int] | None) -> None:
        """Keep the row found of a worker, unless it is known."""
        if name in self._workers:
            return
        self._workers[name] = None if columns is None else WorkerRow(*columns[1:])
        if columns is not None:
            self._stored_workers.add(name)

    def put_worker(self, name: str, row: WorkerRow) -> None:
        self.worker(name)
        self._workers[name] = row
        self._new_workers.add(name)

    def flush_workers(self) -> None:
        """Write the workers that the step has changed so far."""
        for name in self._new_workers:
            row = self._workers[name]
            if row is not None:
                statement = "worker_update" if name in self._stored_workers else "worker_insert"
                self.run(statement, row.nonce, row.seen_at_ms, self.shard_id, name)
                self._stored_workers.add(name)
        self._new_workers = set()

    def sweep_workers(self, before_ms: int, limit: int) -> int:
        self.flush_workers()
        return self.run("worker_sweep", self.shard_id, before_ms, limit).rowcount

    def workers(self) -> list[tuple[str, WorkerRow]]:
        self.flush_workers()
        found = self.run("worker_list", self.shard_id).fetchall()
        return [(name, WorkerRow(nonce, seen_at_ms)) for name, nonce, seen_at_ms in found]

    def leases_over(self, now_ms: int, limit: int) -> int:
        return int(self.run_flushed("job_leases_over", self.shard_id, now_ms, limit).fetchall()[0][0])

    def stranded(self, after_id: str, limit: int) -> list[str]:
        return [id for (id,) in self.run_flushed("job_stranded", self.shard_id, after_id, limit).fetchall()]
