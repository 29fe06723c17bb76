"""Maps and fleets under kills: of the driver with all its processes, of single executors, and of Python workers."""

import asyncio
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.proof.fleet_app import LEASE_MS, QUEUE, app, runs_in, square
from tests.proof.fleet_check import judge
from tests.proof.fleet_driver import NAME, Life
from tests.proof.fleet_figures import Blow, FleetFigures, Plan
from tests.proof.map_check import answered_in
from tests.proof.spark_check import journal_of
from tests.proof.spark_driver import LOCAL
from tests.proof.spark_processes import Tree
from tests.proof.worker_runs import emptied
from tests.support.process import wait_until

ROOT = Path(__file__).parents[2]
PATIENCE_S = 600
"""A life of the longest run takes a minute or two."""
BATCH = 1_000


class Run:
    """One map, or one queue of jobs, from its first life to its last."""

    def __init__(self, url: str, plan: Plan, folder: Path) -> None:
        self.figures = FleetFigures()
        self.queue = Queue(f"map-{NAME}" if plan.maps else QUEUE)
        self.errors = folder / "errors.log"
        self._url, self._plan, self._folder = url, plan, folder
        self._life = Life(
            url, str(folder), plan.rows, plan.maps, plan.master, capacity=plan.capacity, ms=plan.ms, fault=plan.fault
        )

    def live(self, blows: tuple[Blow, ...]) -> None:
        """A life that ends with the last blow; one without any ends by itself."""
        life = self._life
        if (cancel := next((blow for blow in blows if blow.what == "cancel"), None)) is not None:
            life = msgspec.structs.replace(life, cancels_at=int(cancel.share * self._plan.rows))
        words = [sys.executable, "-m", "tests.proof.fleet_driver", msgspec.json.encode(life).decode()]
        driver = Tree(words, ROOT, self.errors)
        try:
            lines = self._lines(driver)
            for blow in blows:
                self._strike(driver, lines, blow)
            if not blows:
                self._await(lines, "ended")
        finally:
            self.figures.processes += len(driver.pids())
            driver.kill()

    def _strike(self, driver: Tree, lines: Iterator[list[str]], blow: Blow) -> None:
        if blow.what == "cancel":
            self._await(lines, "fleet", "cancelled")
            self.figures.leftovers += asyncio.run(self._held())
        else:
            self._await_step(lines, blow)
        if blow.what == "executor":
            wait_until(lambda: bool(driver.executors()), "an executor", PATIENCE_S)  # one may just be replaced
            assert driver.kill_executor(min(driver.executors(), key=int))
        elif blow.what == "worker":
            # There may be none for a moment: jobs, too, end the processes that run them.
            wait_until(lambda: bool(self._workers(driver)), "a worker", PATIENCE_S)
            os.kill(self._workers(driver)[-1], signal.SIGKILL)
        self.figures.blows[blow.what] += 1  # the tree is killed by whoever called

    def _await_step(self, lines: Iterator[list[str]], blow: Blow) -> None:
        while int(self._await(lines, "far", blow.step)[2]) < blow.share * self._plan.rows:
            pass
        if blow.step == "enqueuing":
            wait_until(lambda: asyncio.run(self._enqueued()) > 0, "the first jobs of the map", PATIENCE_S)

    def _workers(self, driver: Tree) -> list[int]:
        """The processes in which handlers have begun, and that live; the last one lately."""
        alive = set(driver.pids())
        return [run.pid for run in runs_in(self._folder) if run.pid in alive]

    async def _enqueued(self) -> int:
        store = await open_store(self._url)
        try:
            there = {queue.full_name: queue for queue in (await store.queues.names(self.queue.tenant)).rows}
            return (await store.queues.counts(self.queue)).waiting if self.queue.full_name in there else 0
        finally:
            await store.close()

    async def _held(self) -> int:
        """Leases that somebody has kept alive for longer than a lease after the fleet's end."""
        store = await open_store(self._url)
        try:
            await asyncio.sleep(LEASE_MS / 1_000 + 0.5)  # the time that must pass is what this is about
            while (await store.jobs.repair(self.queue)).stalled:
                pass
            return (await store.queues.counts(self.queue)).active
        finally:
            await store.close()

    def _lines(self, driver: Tree) -> Iterator[list[str]]:
        # A life that gets nowhere ends, too: then nothing more is read.
        patience = threading.Timer(PATIENCE_S, driver.strike)
        patience.start()
        try:
            yield from (line.split() for line in driver.lines())
        finally:
            patience.cancel()

    def _await(self, lines: Iterator[list[str]], *words: str) -> list[str]:
        for line in lines:
            if line[: len(words)] == [*words]:
                return line
            if line[:1] == ["ended"]:
                raise AssertionError(f"it was all over before {' '.join(words)}; give it more rows")
        raise AssertionError(f"the driver ended before {' '.join(words)}; it said: {self.errors.read_text()[-4_000:]}")


async def run_kills(url: str, plan: Plan, folder: Path) -> FleetFigures:
    """Do as planned, come to the end, and hold notes, journal and answers against each other."""
    start, run = time.monotonic(), Run(url, plan, folder)
    store = await open_store(url)
    try:
        if not plan.maps:
            await _fill(store, plan, folder)
        for blows in (*plan.lives, ()):
            await asyncio.to_thread(run.live, blows)
        run.figures.worked = judge((await journal_of(store)).values(), runs_in(folder))
    finally:
        await store.close()
    run.figures.apart = abs(plan.rows - run.figures.worked.jobs)
    if plan.maps:
        run.figures.answered = answered_in(folder, plan.rows)
    run.figures.seconds = time.monotonic() - start
    return run.figures


async def _fill(store: Store, plan: Plan, folder: Path) -> None:
    sample = app.maker.job_of(square.kind, b"null", square.job_options)
    payloads = [{"n": n, "folder": str(folder), "ms": plan.ms} for n in range(plan.rows)]
    jobs = [
        msgspec.structs.replace(sample, id=f"n-{n}", payload=msgspec.json.encode(payload))
        for n, payload in enumerate(payloads)
    ]
    for at in range(0, plan.rows, BATCH):
        await store.jobs.enqueue(jobs[at : at + BATCH])


async def run_plans(name: str, plans: dict[str, Plan], say: Callable[[str], None]) -> int:
    """Every plan on redis; says how many did not end as they must: a planted fault must be found."""
    violations = 0
    for title, plan in plans.items():
        with tempfile.TemporaryDirectory(prefix="headrace-proof-") as folder:
            figures = await run_kills(await emptied("redis", Path(folder)), plan, Path(folder))
        is_right = figures.has_happened(plan) and figures.is_exact() != bool(plan.fault)
        violations += not is_right
        planted = "the planted fault was found" if plan.fault else "as it must be"
        say(f"{name}: {title}: {planted if is_right else 'VIOLATION'}\n    {figures}")
    return violations


def fleet_plans(rows: int) -> dict[str, Plan]:
    """The lives of the long run of fleets."""
    first = (Blow("executor", 0.05), Blow("worker", 0.1), Blow("executor", 0.15), Blow("tree", 0.2))
    second = (Blow("worker", 0.25), Blow("cancel", 0.35))
    third = (Blow("executor", 0.4), Blow("worker", 0.5), Blow("tree", 0.6))
    fourth = (Blow("worker", 0.65), Blow("worker", 0.7), Blow("cancel", 0.8))
    local = ((Blow("worker", 0.1), Blow("worker", 0.2), Blow("tree", 0.4)), (Blow("cancel", 0.6),))
    few = min(rows, 2_000)
    return {
        "two executors": Plan.of(False, rows, first, second, third, fourth),
        "in one process": Plan.of(False, rows, *local, master=LOCAL),
        "stop_hearts": Plan.of(False, few, fault="stop_hearts"),
        "give_up": Plan.of(False, few, fault="give_up"),
    }


async def run_fleets(say: Callable[[str], None], rows: int = 20_000) -> int:
    """The long run of fleets."""
    return await run_plans("fleet", fleet_plans(rows), say)
