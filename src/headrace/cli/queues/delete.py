"""`headrace queues purge` and `delete`: what cannot be taken back, asked for first and done in bounded steps."""

from msgspec import Struct

from headrace.cli.options import TENANT, DryRun, Json, Tenant, Url, Yes
from headrace.cli.output import Output, counted
from headrace.cli.queue_lookup import queue_of
from headrace.cli.queues.rows import live_text, row_of
from headrace.cli.queues.show import Name
from headrace.cli.store_access import with_store
from headrace.model.errors import Refused
from headrace.model.limits import BATCH_MAX
from headrace.stores.contract.store import Store


class Purged(Struct, frozen=True):
    """How many waiting jobs were dropped, or would be."""

    queue: str
    waiting: int
    """Jobs that waited when it began."""
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

    What runs, has ended or died stays. Jobs that come meanwhile stay, too.
    """
    output = Output(json=json)
    done = with_store(url, lambda store: _purged(store, output, tenant, name, dry_run, yes))
    output.document(done)
    if dry_run:
        output.say(f"would drop {_jobs(done.waiting)} of queue {done.queue!r}")
    else:
        output.say(f"dropped {_jobs(done.purged)} of queue {done.queue!r}")


async def _purged(store: Store, output: Output, tenant: str, name: str, dry_run: bool, yes: bool) -> Purged:
    queue = await queue_of(store, tenant, name)
    waiting = (await store.queues.counts(queue)).waiting
    purged = 0
    if waiting and not dry_run:
        output.confirm(f"Drop {_jobs(waiting)} of queue {name!r} of tenant {tenant!r} for good?", yes=yes)
        with output.progress("dropping", waiting) as advance:
            # No further than what waited at first: with a busy sender there would be no end.
            while purged < waiting:
                limit = min(BATCH_MAX, waiting - purged)
                step = await store.queues.purge(queue, limit=limit)
                purged += step
                advance(step)
                if step < limit:
                    break
    return Purged(queue.full_name, waiting, purged, dry_run)


def _jobs(count: int) -> str:
    return counted(count, "waiting job")


class QueueDeleted(Struct, frozen=True):
    """A queue that was forgotten, or would be."""

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
    """Forget a queue that has no jobs left.

    Its finished jobs, dead letters, keys, journal and configuration go with it.
    """
    output = Output(json=json)
    done = with_store(url, lambda store: _deleted(store, output, tenant, name, dry_run, yes))
    output.document(done)
    output.say(f"queue {done.queue!r} {'would be' if dry_run else 'was'} deleted")


async def _deleted(store: Store, output: Output, tenant: str, name: str, dry_run: bool, yes: bool) -> QueueDeleted:
    queue = await queue_of(store, tenant, name)
    row = await row_of(store, queue, await store.now_ms())
    if live := live_text(row):  # the store refuses it as well: this is for not asking in vain
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
