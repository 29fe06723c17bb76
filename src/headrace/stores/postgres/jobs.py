"""The jobs protocol on PostgreSQL: a call's rows are locked and read in one round trip before its transitions run."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from headrace.model.claim import Claim, ClaimRequest, Claims
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.results import Enqueued
from headrace.stores.engine.jobs import EngineJobs
from headrace.stores.engine.rows import Tx
from headrace.stores.engine.step import Step
from headrace.stores.postgres.rows import PostgresRows
from headrace.stores.postgres.transaction import PostgresTx
from headrace.stores.shared.sharding import by_shard

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class PostgresJobs(EngineJobs):
    """Locks in the order of shard and id, so that calls on the same jobs wait for each other and never in a ring."""

    def _enqueue(self, tx: Tx, jobs: Sequence[Job], now_ms: int) -> list[Enqueued]:
        assert isinstance(tx, PostgresTx)
        groups = list(by_shard(jobs, lambda job: (job.queue, job.id)))
        tx.lock([(shard, [jobs[index].id for index in picks]) for shard, picks in groups], draws=len(jobs))
        for shard, picks in groups:
            keys = [(jobs[index].id, key) for index in picks if (key := jobs[index].idempotency_key) is not None]
            if keys and tx.shards_of(shard.queue) == shard.queue.shards:
                rows = tx.rows(shard)
                if rows is not None:
                    rows.load_keys(keys)
        return super()._enqueue(tx, jobs, now_ms)

    def _claim(self, tx: Tx, request: ClaimRequest, now_ms: int) -> Claims:
        assert isinstance(tx, PostgresTx)
        tx.survey(list(dict.fromkeys(request.queues)), request.worker)
        return super()._claim(tx, request, now_ms)

    def _hand_out(self, step: Step, request: ClaimRequest, limit: int, bytes_left: int) -> list[Claim]:
        rows = step.rows
        assert isinstance(rows, PostgresRows)
        rows.handing_out = True
        try:
            return super()._hand_out(step, request, limit, bytes_left)
        finally:
            rows.handing_out = False

    def _batch(
        self,
        tx: Tx,
        items: Sequence[Item],
        address: Callable[[Item], tuple[Queue, str]],
        act: Callable[[Step, list[Item]], list[Answer]],
        unknown: Callable[[Item], Answer],
        now_ms: int,
    ) -> list[Answer]:
        assert isinstance(tx, PostgresTx)
        groups = by_shard(items, address)
        tx.lock([(shard, [address(items[index])[1] for index in picks]) for shard, picks in groups])
        return super()._batch(tx, items, address, act, unknown, now_ms)
