"""A slot: where a worker of a fleet stands, one task of Spark that lasts as long as the worker does."""

import asyncio
import logging
import os
import random
import sys
import threading
from collections.abc import Callable

from headrace.app.app import App
from headrace.model.clock import monotonic_ms
from headrace.model.errors import HeadraceError
from headrace.model.limits import FLEET_DRAINED_LOOK_MS, FLEET_LEFTOVER_MS, FLEET_STOP_LOOK_MS
from headrace.pipeline.flows.fleet.control import is_asked
from headrace.pipeline.flows.fleet.drained import is_drained
from headrace.pipeline.flows.fleet.orders import Orders
from headrace.pipeline.source.store_access import check_host, check_url
from headrace.stores.contract.store import Store
from headrace.worker.worker import Worker

LEFTOVER_EXIT = 75
"""How the process of a worker ends that left something running."""
OURS = ("headrace-handler", "headrace-heartbeat")
"""Threads that must not outlive their worker."""


def stand(orders: Orders, slot: int, begun: int, attempt: int) -> None:
    """Work until there is nothing left to do, as the orders say, or the fleet is asked to stop.

    Spark uses the process again. So what a worker could not end, a handler in a thread above all, is not left to it:
    the process ends, once the store was told everything.
    """
    check_host(orders.url, orders.planned_on)
    check_url(orders.url)
    quieten()
    app = orders.cargo.unpack(orders.url, orders.planned_on)
    # Also what hangs in the end of the event loop, such as a thread of its executor, is a leftover.
    leaving = threading.Timer(FLEET_LEFTOVER_MS / 1_000, _exit, ["its event loop does not end"])
    leaving.daemon = True
    try:
        asyncio.run(_work(app, orders, orders.name_of(slot, begun, attempt), leaving.start))
    finally:
        leaving.cancel()
        if left := leftovers(FLEET_LEFTOVER_MS):
            _exit(", ".join(left))


def quieten() -> None:
    """Where the app has set up no log, keep the worker's off the stderr of Spark, which may be a person's terminal: the
    journal has all errors."""
    log = logging.getLogger("headrace")
    if not log.hasHandlers():
        log.addHandler(logging.NullHandler())


def leftovers(patience_ms: int) -> list[str]:
    """The threads of a worker that go on after its end, and after they were waited for."""
    until_ms = monotonic_ms() + patience_ms
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(OURS)]
    for thread in threads:
        thread.join(max(until_ms - monotonic_ms(), 0) / 1_000)
    return [thread.name for thread in threads if thread.is_alive()]


def _exit(what: str) -> None:
    print(f"headrace: a worker of a fleet ends its process, since it left behind: {what}", file=sys.stderr, flush=True)
    os._exit(LEFTOVER_EXIT)


async def _work(app: App, orders: Orders, name: str, ended: Callable[[], None]) -> None:
    # The client's store is the one that handlers send jobs through; the worker and its heart have their own.
    store = (await app.client()).store
    try:
        if await is_asked(store, orders.feed_tenant, orders.fleet):
            return
        async with app.build_worker(name=name, **orders.config) as worker:
            watch = asyncio.create_task(_watch(worker, store, orders), name="headrace-fleet")
            watch.add_done_callback(lambda _: worker.stop())
            try:
                await worker.run(until_idle=orders.until == "idle")
            finally:
                ended()
                watch.cancel()
                await asyncio.wait([watch])
            if not watch.cancelled() and (error := watch.exception()) is not None:
                raise error
    finally:
        await app.close()


def _holds_jobs(worker: Worker) -> bool:
    """Whether it has jobs in hand. One whose lease was lost is somebody else's, whatever its thread goes on with."""
    return any(job.stop != "lost" for job in worker.health().running)


async def _watch(worker: Worker, store: Store, orders: Orders) -> None:
    """Until the fleet is asked to stop, or nothing is left."""
    chance = random.Random()
    queues = list(worker.settings.queues)
    looked_ms = monotonic_ms()
    while True:
        # Not all at once: a fleet has many workers, and a store has one ear.
        await asyncio.sleep(FLEET_DRAINED_LOOK_MS / 1_000 * chance.uniform(0.5, 1.5))
        try:
            if monotonic_ms() - looked_ms >= FLEET_STOP_LOOK_MS:
                looked_ms = monotonic_ms()
                if await is_asked(store, orders.feed_tenant, orders.fleet):
                    return
            if orders.until == "drained" and not _holds_jobs(worker) and await is_drained(store, queues):
                return
        except HeadraceError:
            continue  # the worker itself tells of a store that does not answer
