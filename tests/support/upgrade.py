"""A program whose package is removed while it runs: `python -m tests.support.upgrade COPY URL`.

Opens a store, removes the copy of headrace that it runs on, and makes every kind of call. Prints `<call> ok` for each,
or the error.
"""

import asyncio
import shutil
import sys
from pathlib import Path

import headrace
from headrace.model.claim import ClaimRequest
from headrace.model.event import Span
from headrace.model.feed import LAST, FeedName, Move, Publication
from headrace.model.job import Job, State
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Done, Failed, JobError, Outcome, Released, Retried
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.worker.config import WorkerConfig
from headrace.worker.handlers import Handlers, handler_of
from headrace.worker.worker import Worker

QUEUE = Queue("upgraded")
SHARD = Shard(QUEUE, 0)
FEED, ITEM_QUEUE = FeedName("news", "default"), FeedName("inbox", "default")
ERROR = JobError("ValueError", "no")


async def jobs(store: Store) -> None:
    """End jobs in every way."""
    names = ("done", "failed", "released", "died")
    await store.jobs.enqueue([Job(queue=QUEUE, id=name, kind="work") for name in (*names, "cancelled", "removed")])
    request = ClaimRequest(queues=[QUEUE], worker="worker-1", nonce="nonce-of-jobs", limit=len(names))
    claims = (await store.jobs.claim(request)).items
    await store.jobs.enqueue([Job(queue=QUEUE, id="done", kind="work")])
    await store.jobs.extend([claim.lease for claim in claims], lease_ms=60_000)
    outcomes: list[Outcome] = [Done(b"1"), Retried(ERROR, 1), Released(), Failed(ERROR)]
    settlements = [claim.settle(outcome) for claim, outcome in zip(claims, outcomes, strict=True)]
    request = ClaimRequest(queues=[QUEUE], worker="worker-1", nonce="nonce-of-turn", lease_ms=1_000)
    await store.jobs.turn(settlements[:1], request)
    await store.jobs.settle(settlements[1:])
    await store.jobs.cancel(QUEUE, ["cancelled"])
    await store.jobs.remove(QUEUE, ["removed"])
    await store.jobs.repair(QUEUE)


async def dead(store: Store) -> None:
    """List, replay and purge dead letters."""
    dead_letters = await store.dead.list(QUEUE)
    await store.dead.replay(QUEUE, ["died"])
    await store.dead.purge(QUEUE, [dead_letter.key for dead_letter in dead_letters.rows])


async def queues(store: Store) -> None:
    """Configure, count and empty queues."""
    await store.queues.configure(QUEUE, {"fail_handler": True, "keep_done_max": 1})
    await store.queues.configuration(QUEUE)
    await store.queues.counts(QUEUE)
    await store.queues.names("default")
    await store.queues.tenants()
    await store.queues.purge(QUEUE)
    await store.queues.delete(Queue("never"))


async def reads(store: Store) -> None:
    """Look at jobs in every way."""
    await store.reads.find(QUEUE, ["done", "nobody"])
    await store.reads.finished_job(QUEUE, "cancelled")
    for state in (State.WAITING, State.ACTIVE, State.BLOCKED, State.DONE):
        await store.reads.list(QUEUE, state)
    await store.reads.snapshot(SHARD)
    await store.reads.scan(SHARD, "alive")
    await store.reads.workers(QUEUE)


async def journal(store: Store) -> None:
    """Read and trim a journal."""
    bounds = await store.journal.bounds(SHARD)
    await store.journal.read(SHARD, 0, bounds.last_seq)
    await store.journal.all_bounds([SHARD])
    await store.journal.reached([Span(SHARD, 0, bounds.last_seq)], bounds.last_seq)
    await store.journal.register(SHARD, "reader")
    await store.journal.advance(SHARD, "reader", 1)
    await store.journal.consumers(SHARD)
    await store.journal.forget(SHARD, "reader")
    await store.journal.trim(SHARD)


async def feeds(store: Store) -> None:
    """Publish, change and follow items."""
    await store.feeds.create(FEED, "sorted", instance="me")
    await store.feeds.create(ITEM_QUEUE, "queue", instance="me")
    for feed in (FEED, ITEM_QUEUE):
        await store.items.publish(feed, [Publication(b"1", "a"), Publication(b"2", "b")], instance="me")
    await store.items.move(FEED, [Move("a", LAST)], instance="me")
    await store.items.retract(FEED, ["b"], instance="me")
    await store.items.take(ITEM_QUEUE)
    await store.items.find(FEED, ["a"])
    await store.items.list(FEED)
    await store.items.snapshot(FEED)
    await store.feeds.configure(FEED, {"changes_keep_max": 10}, instance="me")
    await store.feeds.describe(FEED)
    await store.feeds.changes(FEED)
    await store.feeds.sweep(FEED)
    await store.signals.changed(FEED, None, 1)
    await store.feeds.delete(FEED, instance="me")


async def signals(store: Store) -> None:
    """Wait for what does not come."""
    await store.signals.wait([Queue("never")], 1)
    await store.signals.ended(QUEUE, ["nobody"], 1)


async def integrity(store: Store) -> None:
    """Look after the store."""
    await store.integrity.check(SHARD)
    await store.integrity.repair(SHARD)
    await store.health()


async def work(store: Store) -> None:
    """Let a worker run jobs on its loop and in a thread, with a heart on a thread of its own, and stop."""
    handlers = Handlers()
    for kind, function in {"soon": soon, "plain": plain}.items():
        handlers.register(handler_of(kind, function), QUEUE)
    await store.jobs.enqueue([Job(queue=QUEUE, id=kind, kind=kind, payload=b"{}") for kind in ("soon", "plain")])
    worker = Worker(store, handlers, WorkerConfig(poll="50ms"), reopen=lambda: open_store(sys.argv[2]))
    await worker.run(until_idle=True)
    assert worker.health().totals.done == 2


async def soon() -> None:
    """Do nothing, on the loop."""


def plain() -> None:
    """Do nothing, in a thread."""


CALLS = (jobs, dead, queues, reads, journal, feeds, signals, integrity, work)


async def main(copy: str, url: str) -> None:
    """Open, remove, call."""
    assert Path(headrace.__file__).is_relative_to(copy), headrace.__file__
    store = await open_store(url)
    shutil.rmtree(copy)
    for call in CALLS:
        try:
            await call(store)
        except Exception as error:  # noqa: BLE001 - told, and then the next
            print(call.__name__, repr(error))
        else:
            print(call.__name__, "ok")
    await store.close()
    print("closed")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
