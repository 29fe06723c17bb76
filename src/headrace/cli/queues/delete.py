"""`headrace queues purge` and `delete`: drops jobs or a whole queue in bounded steps, after a confirmation."""

from msgspec import Struct

from headrace.cli.options import TENANT, DryRun, Json, Tenant, Url, Yes
from headrace.cli.output import Output, counted
from headrace.cli.queues.list import Name
from headrace.cli.store_access import with_store
from headrace.inspect.lookup import queue_of
from headrace.inspect.queues import QueueRow, queue_row
from headrace.model.errors import Refused
from headrace.model.limits import BATCH_MAX
from headrace.stores.contract.store import Store


class QueuePurged(Struct, frozen=True):
    """The waiting jobs of a queue that were dropped, or would be."""

    queue: str
    waiting: int
    """Jobs that waited at the beginning."""
    purged: int
    dry_run: bool


def purge(
    name: Name,
    url: Url = None,
    tenant: Tenant = TENANT,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Drop all waiting jobs of a queue.

    Active, finished and dead jobs stay, as do jobs enqueued meanwhile.

    Example: headrace queues purge mail --dry-run
    """
    output = Output(json=json)
    done = with_store(url, lambda store: _purge(store, output, tenant, name, dry_run, yes))
    output.document(done)
    if dry_run:
        output.say(f"would drop {_jobs(done.waiting)} of queue {done.queue!r}")
    else:
        output.say(f"dropped {_jobs(done.purged)} of queue {done.queue!r}")


async def _purge(store: Store, output: Output, tenant: str, name: str, dry_run: bool, yes: bool) -> QueuePurged:
    queue = await queue_of(store, tenant, name)
    waiting = (await store.queues.counts(queue)).waiting
    purged = 0
    if waiting and not dry_run:
        output.confirm(f"Drop {_jobs(waiting)} of queue {name!r} of tenant {tenant!r} for good?", yes=yes)
        with output.progress("dropping", waiting) as advance:
            # Only as many as waited at first: a busy sender would keep it running for ever.
            while purged < waiting:
                limit = min(BATCH_MAX, waiting - purged)
                step = await store.queues.purge(queue, limit=limit)
                purged += step
                advance(step)
                if step < limit:
                    break
    return QueuePurged(queue.full_name, waiting, purged, dry_run)


def _jobs(count: int) -> str:
    return counted(count, "waiting job")


class QueueDeleted(Struct, frozen=True):
    """A queue that was deleted, or would be."""

    queue: str
    tenant: str
    deleted: bool
    dry_run: bool


def delete(
    name: Name,
    url: Url = None,
    tenant: Tenant = TENANT,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Delete a queue that has no live jobs.

    Its finished jobs, dead letters, idempotency keys, journal and configuration go with it.

    Example: headrace queues delete mail
    """
    output = Output(json=json)
    done = with_store(url, lambda store: _delete(store, output, tenant, name, dry_run, yes))
    output.document(done)
    output.say(f"queue {done.queue!r} {'would be' if dry_run else 'was'} deleted")


async def _delete(store: Store, output: Output, tenant: str, name: str, dry_run: bool, yes: bool) -> QueueDeleted:
    queue = await queue_of(store, tenant, name)
    row = await queue_row(store, queue, await store.now_ms())
    if live := _live_text(row):  # before the question: the store would refuse it anyway
        raise Refused(
            "not_empty",
            f"queue {name!r} still has jobs ({live}); let them end, or drop the waiting ones with:"
            f" headrace queues purge {name}",
        )
    if not dry_run:
        output.confirm(
            f"Delete queue {name!r} of tenant {tenant!r} for good, with {row.done + row.cancelled:,} finished jobs,"
            f" {row.dead:,} dead letters and its journal?",
            yes=yes,
        )
        with output.progress("deleting") as advance:
            while not await store.queues.delete(queue, limit=BATCH_MAX):
                advance(BATCH_MAX)
    return QueueDeleted(queue.full_name, tenant, not dry_run, dry_run)


def _live_text(row: QueueRow) -> str:
    """The live jobs in words; empty if there are none."""
    counts = {"waiting": row.waiting, "blocked": row.blocked, "active": row.active}
    return ", ".join(f"{count:,} {state}" for state, count in counts.items() if count)
