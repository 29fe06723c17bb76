"""Queues: configure, count, list, purge and delete them."""

from collections.abc import Mapping

from headrace.model.event import EventRecord
from headrace.model.limits import BATCH_MAX, PAGE_MAX
from headrace.model.names import Queue, check_tenant
from headrace.model.policy import QueueConfig, first_config
from headrace.model.results import Counts, Page
from headrace.model.validate import check_int, check_version_number
from headrace.stores.engine.cancel import purge_waiting
from headrace.stores.engine.journal import erase_journal
from headrace.stores.engine.rows import Engine, Tx
from headrace.stores.engine.step import Step, at, finish_step
from headrace.stores.shared.validate import check_version, not_empty


class EngineQueues:
    """Queues: a call is one step on all shards of its queue."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def configure(
        self,
        queue: Queue,
        changes: Mapping[str, object],
        *,
        version: int | None = None,
        now_ms: int | None = None,
    ) -> QueueConfig:
        check_version_number(version)
        first_config(queue).changed(changes)

        def act(tx: Tx, now_ms: int) -> QueueConfig:
            known = tx.rows(queue.all_shards()[0])
            old = first_config(queue) if known is None else known.config
            check_version(queue, old, version)
            config = old.changed(changes)
            steps = [Step(rows, now_ms) for shard in queue.all_shards() if (rows := tx.rows(shard, create=True))]
            tx.configure(queue, config)
            for step in steps:
                step.rows.number()  # earlier lines are kept by the old retention
                step.rows.config = config
                step.note(EventRecord("configured", version=config.version))
                step.woke = old.paused and not config.paused
                finish_step(self._engine, step)
            return config

        return await self._engine.write(at(now_ms, act))

    async def configuration(self, queue: Queue) -> QueueConfig:
        def query(tx: Tx) -> QueueConfig:
            rows = tx.rows(queue.all_shards()[0])
            return first_config(queue) if rows is None else rows.config

        return await self._engine.read(query)

    async def counts(self, queue: Queue, *, now_ms: int | None = None) -> Counts:

        def query(tx: Tx, now_ms: int) -> Counts:
            total = Counts()
            for shard in queue.all_shards():
                rows = tx.rows(shard)
                if rows is not None:
                    total += rows.counts(now_ms)
            return total

        return await self._engine.read(at(now_ms, query))

    async def names(self, tenant: str, *, cursor: str | None = None, limit: int = 100) -> Page[Queue]:
        check_tenant(tenant)
        check_int("limit", limit, 1, PAGE_MAX)
        found = await self._engine.read(lambda tx: tx.names(tenant, cursor or "", limit))
        return Page(found, found[-1].full_name if len(found) == limit else None)

    async def tenants(self, *, cursor: str | None = None, limit: int = 100) -> Page[str]:
        check_int("limit", limit, 1, PAGE_MAX)
        found = await self._engine.read(lambda tx: tx.tenants(cursor or "", limit))
        return Page(found, found[-1] if len(found) == limit else None)

    async def purge(self, queue: Queue, *, limit: int = BATCH_MAX, now_ms: int | None = None) -> int:
        check_int("limit", limit, 1, BATCH_MAX)

        def act(tx: Tx, now_ms: int) -> int:
            purged = 0
            for shard in queue.all_shards():
                rows = tx.rows(shard)
                if rows is not None and purged < limit:
                    step = Step(rows, now_ms)
                    purged += purge_waiting(step, limit - purged)
                    finish_step(self._engine, step)
            return purged

        return await self._engine.write(at(now_ms, act))

    async def delete(self, queue: Queue, *, limit: int = BATCH_MAX) -> bool:
        check_int("limit", limit, 1, BATCH_MAX)

        def act(tx: Tx) -> bool:
            shards = [rows for shard in queue.all_shards() if (rows := tx.rows(shard)) is not None]
            live = sum(rows.waiting_count() + rows.counts(0).active for rows in shards)
            if live:
                raise not_empty(queue, live)
            left = limit
            for rows in shards:
                rows.number()
                left -= rows.erase(left)
                left -= erase_journal(rows, left)
                if left <= 0:
                    return False
            tx.forget(queue)
            return True

        return await self._engine.write(act)
