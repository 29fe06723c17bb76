"""Queues: configure, count, list, purge and delete them."""

from collections.abc import Mapping, Sequence

from headrace.model.errors import Refused
from headrace.model.event import EventRecord
from headrace.model.limits import BATCH_MAX, CURSOR_CHARS_MAX, PAGE_MAX
from headrace.model.names import DEFAULT_TENANT, Queue, check_tenant
from headrace.model.policy import QueueConfig, first_config
from headrace.model.results import Counts, Page, QueueOverview
from headrace.model.validate import bounded_repr, check_batch, check_int, check_text, check_time, check_version_number
from headrace.stores.engine.cancel import purge_waiting
from headrace.stores.engine.journal import erase_journal
from headrace.stores.engine.rows import Engine, Tx
from headrace.stores.engine.step import Step, at, finish_step
from headrace.stores.shared.validate import check_version, not_empty


def check_overview(
    tenant: str, names: Sequence[str] | None, prefix: str, cursor: str | None, limit: int, now_ms: int | None
) -> list[str] | None:
    """Refuse wrong arguments of an overview; the wanted names by name, without those that no queue can have."""
    check_tenant(tenant)
    check_text("prefix", prefix, CURSOR_CHARS_MAX, 0)
    if cursor is not None:
        check_text("cursor", cursor, CURSOR_CHARS_MAX, 0)
    check_int("limit", limit, 1, PAGE_MAX)
    if now_ms is not None:
        check_time("now_ms", now_ms)
    if names is None:
        return None
    check_batch("names", len(names), PAGE_MAX)
    return sorted({name for name in names if _can_be_named(name)})


def _can_be_named(name: object) -> bool:
    if not isinstance(name, str):
        raise Refused("bad_names", f"names must be names of queues; found {type(name).__name__} {bounded_repr(name)}")
    try:
        Queue.parse(name, DEFAULT_TENANT, 1)
    except Refused:
        return False
    return True


def overview_start(prefix: str, cursor: str | None) -> str:
    """The name after which a page of the queues with a prefix begins: no character of a name sorts after DEL."""
    before = f"{prefix[:-1]}{chr(ord(prefix[-1]) - 1)}\x7f" if prefix else ""
    return max(cursor or "", before)


def overview_page(found: list[QueueOverview], prefix: str, limit: int) -> Page[QueueOverview]:
    """The page that these queues, at most `limit` from its start on, make."""
    rows = [each for each in found if each.queue.full_name.startswith(prefix)]
    return Page(rows, rows[-1].queue.full_name if len(rows) == limit else None)


def overview_of(tx: Tx, queue: Queue, now_ms: int) -> QueueOverview | None:
    """A queue with its counts, shard by shard."""
    shards = [rows for shard in queue.all_shards() if (rows := tx.rows(shard)) is not None]
    if not shards:
        return None
    counts = sum((rows.counts(now_ms) for rows in shards), start=Counts())
    config = shards[0].config
    last_seq = sum(rows.counters.seq for rows in shards)
    return QueueOverview(queue, config.version, config.paused, counts, last_seq)


def overviews_of(
    tx: Tx, tenant: str, names: Sequence[str] | None, after: str, limit: int, now_ms: int | None
) -> list[QueueOverview]:
    """Queues with their counts, one after the other: for stores whose reads cost no round trip."""
    if names is None:
        queues = tx.names(tenant, after, limit)
    else:
        queues = [
            queue
            for name in names
            for queue in tx.names(tenant, overview_start(name, None), 1)
            if queue.full_name == name
        ]
    at_ms = tx.now_ms() if now_ms is None else now_ms
    return [each for queue in queues if (each := overview_of(tx, queue, at_ms)) is not None]


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

    async def overview(
        self,
        tenant: str,
        *,
        names: Sequence[str] | None = None,
        prefix: str = "",
        cursor: str | None = None,
        limit: int = 100,
        now_ms: int | None = None,
    ) -> Page[QueueOverview]:
        wanted = check_overview(tenant, names, prefix, cursor, limit, now_ms)
        start = overview_start(prefix, cursor)
        found = await self._engine.read(lambda tx: tx.overviews(tenant, wanted, start, limit, now_ms))
        return Page(found, None) if wanted is not None else overview_page(found, prefix, limit)

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
