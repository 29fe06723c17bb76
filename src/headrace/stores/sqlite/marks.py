"""Small rows beside the jobs of a shard: blocked jobs, idempotency keys, workers."""

from headrace.model.job import BlockedJob
from headrace.stores.engine.row_codec import pack, unpack_blocked_job
from headrace.stores.engine.rows import KeyRow, WorkerRow
from headrace.stores.sqlite.part import SqliteRowGroup
from headrace.stores.sqlite.sql import sql


class SqliteKeyRows(SqliteRowGroup):
    """Written and read straight away: there are few of them in a step."""

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

    def key(self, id: str, key: str) -> KeyRow | None:
        found = self.run(sql("idempotency_key_find"), (self.shard_id, id, key)).fetchone()
        return None if found is None else KeyRow(*found)

    def put_key(self, id: str, key: str, row: KeyRow) -> None:
        self.run(sql("idempotency_key_write"), (self.shard_id, id, key, row.fingerprint, row.until_ms))

    def sweep_keys(self, now_ms: int, limit: int) -> int:
        return self.run(sql("idempotency_key_sweep"), (self.shard_id, self.shard_id, now_ms, limit)).rowcount

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
