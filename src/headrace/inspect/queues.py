"""Lists queues with their counts, and shows one with its configuration, workers and journal."""

from functools import partial

from msgspec import Struct

from headrace.inspect.jobs import instant_or_none
from headrace.inspect.lookup import look_at_each, queue_of
from headrace.inspect.workers import WorkerListRow, list_workers
from headrace.model.limits import PAGE_MAX
from headrace.model.names import Queue
from headrace.model.policy import SETTABLE, QueueConfig, first_config
from headrace.model.results import Counts, QueueOverview
from headrace.stores.catalog import all_tenants
from headrace.stores.contract.store import Store


class QueueRow(Struct, frozen=True):
    """The jobs of a queue by state; `later` are the waiting ones that are not yet ready."""

    tenant: str
    queue: str
    shards: int
    paused: bool
    waiting: int
    later: int
    blocked: int
    active: int
    done: int
    cancelled: int
    dead: int
    oldest_due_at: str | None
    """When the first ready job became due."""
    oldest_due_at_ms: int | None
    oldest_due_ms_ago: int | None


class QueueList(Struct, frozen=True):
    """The queues of a tenant or of all tenants."""

    queues: list[QueueRow]
    total: Counts
    more: bool = False


async def list_queues(store: Store, tenant: str | None) -> QueueList:
    """The queues of a tenant, or of all tenants for None, with their counts and the sum."""
    tenants = [tenant] if tenant is not None else await all_tenants(store)
    now_ms = await store.now_ms()
    found = [each async for _, some in look_at_each(tenants, partial(_overview, store)) for each in some]
    rows = [_row(each.queue, each.paused, each.counts, now_ms) for each in found]
    total = Counts()
    for row in rows:
        total += Counts(
            *(row.waiting, row.later, row.blocked, row.active, row.done, row.cancelled, row.dead),
            row.oldest_due_at_ms,
        )
    return QueueList(rows, total)


async def queue_row(store: Store, queue: Queue, now_ms: int) -> QueueRow:
    """A queue with its counts; `now_ms` is the store's time."""
    config = await store.queues.configuration(queue)
    return _row(queue, config.paused, await store.queues.counts(queue), now_ms)


async def _overview(store: Store, tenant: str) -> list[QueueOverview]:
    """All queues of a tenant with their counts, a thousand in a call."""
    page = await store.queues.overview(tenant, limit=PAGE_MAX)
    found = list(page.rows)
    while page.cursor is not None:
        page = await store.queues.overview(tenant, cursor=page.cursor, limit=PAGE_MAX)
        found += page.rows
    return found


def _row(queue: Queue, is_paused: bool, counts: Counts, now_ms: int) -> QueueRow:
    due_at_ms = counts.oldest_due_ms
    return QueueRow(
        tenant=queue.tenant,
        queue=queue.full_name,
        shards=queue.shards,
        paused=is_paused,
        waiting=counts.waiting,
        later=counts.later,
        blocked=counts.blocked,
        active=counts.active,
        done=counts.done,
        cancelled=counts.cancelled,
        dead=counts.dead,
        oldest_due_at=instant_or_none(due_at_ms),
        oldest_due_at_ms=due_at_ms,
        oldest_due_ms_ago=None if due_at_ms is None else max(now_ms - due_at_ms, 0),
    )


class Setting(Struct, frozen=True):
    """A setting of a queue beside its default."""

    name: str
    value: bool | int
    default: bool | int


def settings_of(queue: Queue, config: QueueConfig) -> list[Setting]:
    """All settings of a queue, each beside the initial one of the queue."""
    default = first_config(queue)
    return [Setting(field, getattr(config, field), getattr(default, field)) for field in SETTABLE]


class JournalRow(Struct, frozen=True, kw_only=True):
    """The journal of a shard."""

    shard: int
    epoch: int
    first_seq: int
    last_seq: int
    events: int
    bytes: int
    first_at: str | None
    last_at: str | None


class QueueView(Struct, frozen=True):
    """A queue with its configuration, workers and journal."""

    queue: QueueRow
    version: int
    """Of the configuration: rises by one with every change."""
    settings: list[Setting]
    workers: list[WorkerListRow]
    journal: list[JournalRow]


async def show_queue(store: Store, tenant: str, name: str) -> QueueView:
    """The queue of that name; raises `Refused` for a name that no queue has."""
    queue = await queue_of(store, tenant, name)
    config = await store.queues.configuration(queue)
    row = await queue_row(store, queue, await store.now_ms())
    workers = (await list_workers(store, tenant, name)).workers
    journal = [await _journal_row(store, queue, index) for index in range(queue.shards)]
    return QueueView(row, config.version, settings_of(queue, config), workers, journal)


async def _journal_row(store: Store, queue: Queue, index: int) -> JournalRow:
    bounds = await store.journal.bounds(queue.all_shards()[index])
    return JournalRow(
        shard=index,
        epoch=bounds.epoch,
        first_seq=bounds.first_seq,
        last_seq=bounds.last_seq,
        events=bounds.last_seq - bounds.first_seq + 1,
        bytes=bounds.bytes,
        first_at=instant_or_none(bounds.first_at_ms),
        last_at=instant_or_none(bounds.last_at_ms),
    )
