"""Runs one worker of a fleet in a task of a Spark executor, until a stop request or until its queues are drained."""

import asyncio
import logging
import os
import random
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from headrace.app.app import App
from headrace.client.tasks import retry
from headrace.model.clock import monotonic_ms
from headrace.model.errors import HeadraceError, Refused
from headrace.model.feed import FeedName, Publication
from headrace.model.limits import FLEET_DRAINED_POLL_MS, FLEET_LEFTOVER_MS, FLEET_STOP_POLL_MS
from headrace.model.names import Queue
from headrace.model.results import Counts
from headrace.pipeline.flows.fleet.app_bundle import AppBundle
from headrace.pipeline.source.journal.ranges import bounds_of
from headrace.pipeline.source.sink.result import make_feed
from headrace.pipeline.source.store_access import check_host, check_url
from headrace.stores.contract.store import Store
from headrace.worker.worker import Worker

STOP_FEED = "spark.fleets"
"""Holds a stop request under the id of its fleet: only the store is in reach of the driver and all workers."""
_INSTANCE = "spark"

Until = Literal["drained", "idle"]
LEFTOVER_EXIT = 75
"""The exit code of a process whose worker left threads behind."""
WORKER_THREADS = ("headrace-handler", "headrace-heartbeat")
"""Threads that must not outlive their worker."""


class FleetSpec(Struct, frozen=True):
    """What the driver sends to every worker of a fleet."""

    fleet: str
    url: str
    bundle: AppBundle
    config: dict[str, Any]
    """The fields of `WorkerConfig`, without the name."""
    until: Until | None
    feed_tenant: str
    planned_on: str

    def worker_name(self, slot: int, start: int, attempt: int) -> str:
        """The name of a worker in the journal: every process that serves a slot has its own."""
        return f"{name_prefix(self.fleet)}{slot}.{start}.{attempt}"

    def __repr__(self) -> str:
        return f"<FleetSpec of {self.fleet}>"  # the URL may hold a password


def name_prefix(fleet: str) -> str:
    """The prefix of the names of a fleet's workers."""
    return f"fleet-{fleet}/"


def run_worker(spec: FleetSpec, slot: int, start: int, attempt: int) -> None:
    """Work until the queues are drained or idle, as the spec says, or the fleet is asked to stop.

    Spark reuses the process. So it is ended, once everything is settled, if a handler in a thread is still running.
    """
    check_host(spec.url, spec.planned_on)
    check_url(spec.url)
    silence_log()
    app = spec.bundle.load(spec.url, spec.planned_on)
    # A hanging event loop is a leftover, too, such as a thread of its executor.
    exit_timer = threading.Timer(FLEET_LEFTOVER_MS / 1_000, _exit, ["its event loop does not end"])
    exit_timer.daemon = True
    try:
        asyncio.run(_work(app, spec, spec.worker_name(slot, start, attempt), exit_timer.start))
    finally:
        exit_timer.cancel()
        if leftovers := leftover_threads(FLEET_LEFTOVER_MS):
            _exit(", ".join(leftovers))


def silence_log() -> None:
    """Keep the worker's log off Spark's stderr, which may be a terminal, unless the app has set up logging: the journal
    holds all errors."""
    log = logging.getLogger("headrace")
    if not log.hasHandlers():
        log.addHandler(logging.NullHandler())


def leftover_threads(timeout_ms: int) -> list[str]:
    """The names of a worker's threads that still run after the time-out."""
    until_ms = monotonic_ms() + timeout_ms
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(WORKER_THREADS)]
    for thread in threads:
        thread.join(max(until_ms - monotonic_ms(), 0) / 1_000)
    return [thread.name for thread in threads if thread.is_alive()]


def _exit(leftover: str) -> None:
    print(
        f"headrace: a worker of a fleet ends its process because it left behind: {leftover}",
        file=sys.stderr,
        flush=True,
    )
    os._exit(LEFTOVER_EXIT)


async def _work(app: App, spec: FleetSpec, name: str, on_end: Callable[[], None]) -> None:
    # Handlers enqueue through the client's store; the worker and its heartbeat have their own.
    store = (await app.client()).store
    try:
        if await is_stop_requested(store, spec.feed_tenant, spec.fleet):
            return
        async with app.build_worker(name=name, **spec.config) as worker:
            watch = asyncio.create_task(_wait_for_end(worker, store, spec), name="headrace-fleet")
            watch.add_done_callback(lambda _: worker.stop())
            try:
                await worker.run(until_idle=spec.until == "idle")
            finally:
                on_end()
                watch.cancel()
                await asyncio.wait([watch])
            if not watch.cancelled() and (error := watch.exception()) is not None:
                raise error
    finally:
        await app.close()


def _has_jobs(worker: Worker) -> bool:
    """Whether the worker holds leases. A job with a lost lease belongs to another worker, even if its thread runs."""
    return any(job.stop != "lost" for job in worker.health().running)


async def _wait_for_end(worker: Worker, store: Store, spec: FleetSpec) -> None:
    """Return when the fleet is asked to stop, or its queues are drained."""
    rng = random.Random()
    queues = list(worker.settings.queues)
    polled_ms = monotonic_ms()
    while True:
        # Spread the polls of many workers.
        await asyncio.sleep(FLEET_DRAINED_POLL_MS / 1_000 * rng.uniform(0.5, 1.5))
        try:
            if monotonic_ms() - polled_ms >= FLEET_STOP_POLL_MS:
                polled_ms = monotonic_ms()
                if await is_stop_requested(store, spec.feed_tenant, spec.fleet):
                    return
            if spec.until == "drained" and not _has_jobs(worker) and await is_drained(store, queues):
                return
        except HeadraceError:
            continue  # the worker itself reports a store that does not answer


async def request_stop(store: Store, tenant: str, fleet: str) -> None:
    """Ask all workers of a fleet to stop; may be repeated."""
    feed = FeedName(STOP_FEED, tenant)
    requests = [Publication(b'{"stop":true}', fleet)]
    try:
        await retry(lambda: store.items.publish(feed, requests, instance=_INSTANCE))
    except Refused as refused:
        if refused.reason != "unknown_feed":
            raise
        await make_feed(store, feed, _INSTANCE)
        await retry(lambda: store.items.publish(feed, requests, instance=_INSTANCE))


async def is_stop_requested(store: Store, tenant: str, fleet: str) -> bool:
    """Whether a fleet was asked to stop."""
    [request] = await store.items.find(FeedName(STOP_FEED, tenant), [fleet])
    return request is not None


async def clear_stop_request(store: Store, tenant: str, fleet: str) -> None:
    """Delete the stop request of a fleet that has ended."""
    await store.items.retract(FeedName(STOP_FEED, tenant), [fleet], instance=_INSTANCE)


async def total_counts(store: Store, queues: Sequence[Queue]) -> Counts:
    """The counts of several queues added up, each read at its own instant."""
    total = Counts()
    for queue in queues:
        total += await store.queues.counts(queue)
    return total


async def is_drained(store: Store, queues: Sequence[Queue]) -> bool:
    """Whether all queues were empty at one instant: nothing waiting, scheduled, running or blocked.

    A handler may enqueue into a queue that was already counted, and end before its own queue is counted. So the ends of
    the journals are compared before and after: where none has moved, all counts describe one state.
    """
    if (await total_counts(store, queues)).open:
        return False
    before = await _journal_ends(store, queues)
    if (await total_counts(store, queues)).open:
        return False
    return await _journal_ends(store, queues) == before


async def _journal_ends(store: Store, queues: Sequence[Queue]) -> list[tuple[int, int]]:
    bounds = await bounds_of(store.journal, [shard for queue in queues for shard in queue.all_shards()])
    return [(each.epoch, each.last_seq) for each in bounds.values()]
