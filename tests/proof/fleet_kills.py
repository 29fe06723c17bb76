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
from tests.proof.fleet_app import LEASE_MS, QUEUE, app, read_runs, square
from tests.proof.fleet_check import check_work
from tests.proof.fleet_driver import NAME, Life
from tests.proof.fleet_figures import FleetFigures, Kill, Plan
from tests.proof.map_check import check_results
from tests.proof.spark_check import journal_of
from tests.proof.spark_driver import LOCAL
from tests.proof.spark_processes import Tree
from tests.proof.worker_runs import emptied
from tests.support.process import wait_until

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 600
"""A life of the longest run takes a minute or two."""
BATCH = 1_000


class Run:
    """One map, or one queue of jobs, over all lives of its driver."""

    def __init__(self, url: str, plan: Plan, folder: Path) -> None:
        self.figures = FleetFigures()
        self.queue = Queue(f"map-{NAME}" if plan.maps else QUEUE)
        self.errors = folder / "errors.log"
        self._url, self._plan, self._folder = url, plan, folder
        self._life = Life(
            url, str(folder), plan.rows, plan.maps, plan.master, capacity=plan.capacity, ms=plan.ms, fault=plan.fault
        )

    def live(self, kills: tuple[Kill, ...]) -> None:
        """A life of the driver that ends with the last kill, or by itself without any."""
        life = self._life
        if (cancel := next((kill for kill in kills if kill.target == "cancel"), None)) is not None:
            life = msgspec.structs.replace(life, cancels_at=int(cancel.share * self._plan.rows))
        words = [sys.executable, "-m", "tests.proof.fleet_driver", msgspec.json.encode(life).decode()]
        driver = Tree(words, ROOT, self.errors)
        try:
            lines = self._lines(driver)
            for kill in kills:
                self._kill(driver, lines, kill)
            if not kills:
                self._await(lines, "ended")
        finally:
            self.figures.processes += len(driver.pids())
            driver.kill()

    def _kill(self, driver: Tree, lines: Iterator[list[str]], kill: Kill) -> None:
        if kill.target == "cancel":
            self._await(lines, "fleet", "cancelled")
            self.figures.leftovers += asyncio.run(self._count_leases())
        else:
            self._await_step(lines, kill)
        if kill.target == "executor":
            wait_until(lambda: bool(driver.executors()), "an executor", TIMEOUT_S)  # one may be being replaced
            assert driver.kill_executor(min(driver.executors(), key=int))
        elif kill.target == "worker":
            # There may be none for a moment: jobs crash their processes, too.
            wait_until(lambda: bool(self._workers(driver)), "a worker", TIMEOUT_S)
            os.kill(self._workers(driver)[-1], signal.SIGKILL)
        self.figures.kills[kill.target] += 1  # the caller kills the tree

    def _await_step(self, lines: Iterator[list[str]], kill: Kill) -> None:
        while int(self._await(lines, "far", kill.step)[2]) < kill.share * self._plan.rows:
            pass
        if kill.step == "enqueuing":
            wait_until(lambda: asyncio.run(self._enqueued()) > 0, "the first jobs of the map", TIMEOUT_S)

    def _workers(self, driver: Tree) -> list[int]:
        """The live processes in which handlers have started, the latest last."""
        alive = set(driver.pids())
        return [run.pid for run in read_runs(self._folder) if run.pid in alive]

    async def _enqueued(self) -> int:
        store = await open_store(self._url)
        try:
            names = {queue.full_name for queue in (await store.queues.names(self.queue.tenant)).rows}
            return (await store.queues.counts(self.queue)).waiting if self.queue.full_name in names else 0
        finally:
            await store.close()

    async def _count_leases(self) -> int:
        """Leases that are still extended one lease after the fleet's end."""
        store = await open_store(self._url)
        try:
            await asyncio.sleep(LEASE_MS / 1_000 + 0.5)  # until all other leases have expired
            while (await store.jobs.repair(self.queue)).stalled:
                pass
            return (await store.queues.counts(self.queue)).active
        finally:
            await store.close()

    def _lines(self, driver: Tree) -> Iterator[list[str]]:
        # A driver that hangs is killed: then its output ends.
        timeout = threading.Timer(TIMEOUT_S, driver.strike)
        timeout.start()
        try:
            yield from (line.split() for line in driver.lines())
        finally:
            timeout.cancel()

    def _await(self, lines: Iterator[list[str]], *words: str) -> list[str]:
        for line in lines:
            if line[: len(words)] == [*words]:
                return line
            if line[:1] == ["ended"]:
                raise AssertionError(f"the run ended before {' '.join(words)}; give it more rows")
        raise AssertionError(f"the driver ended before {' '.join(words)}: {self.errors.read_text()[-4_000:]}")


async def run_kills(url: str, plan: Plan, folder: Path) -> FleetFigures:
    """Run the plan to its end, and compare the handlers' notes, the journal and the results."""
    start, run = time.monotonic(), Run(url, plan, folder)
    store = await open_store(url)
    try:
        if not plan.maps:
            await _fill(store, plan, folder)
        for kills in (*plan.lives, ()):
            await asyncio.to_thread(run.live, kills)
        run.figures.work = check_work((await journal_of(store)).values(), read_runs(folder))
    finally:
        await store.close()
    run.figures.apart = abs(plan.rows - run.figures.work.jobs)
    if plan.maps:
        run.figures.results = check_results(folder, plan.rows)
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
    """Run every plan on Redis; return how many failed: a planted fault must be found."""
    violations = 0
    for title, plan in plans.items():
        with tempfile.TemporaryDirectory(prefix="headrace-proof-") as folder:
            figures = await run_kills(await emptied("redis", Path(folder)), plan, Path(folder))
        is_right = figures.has_happened(plan) and figures.is_exact() != bool(plan.fault)
        violations += not is_right
        expected = "the planted fault was found" if plan.fault else "as expected"
        say(f"{name}: {title}: {expected if is_right else 'VIOLATION'}\n    {figures}")
    return violations


def fleet_plans(rows: int) -> dict[str, Plan]:
    """The plans of the long run of fleets."""
    first = (Kill("executor", 0.05), Kill("worker", 0.1), Kill("executor", 0.15), Kill("tree", 0.2))
    second = (Kill("worker", 0.25), Kill("cancel", 0.35))
    third = (Kill("executor", 0.4), Kill("worker", 0.5), Kill("tree", 0.6))
    fourth = (Kill("worker", 0.65), Kill("worker", 0.7), Kill("cancel", 0.8))
    local = ((Kill("worker", 0.1), Kill("worker", 0.2), Kill("tree", 0.4)), (Kill("cancel", 0.6),))
    few = min(rows, 2_000)
    return {
        "two executors": Plan.of(False, rows, first, second, third, fourth),
        "in one process": Plan.of(False, rows, *local, master=LOCAL),
        "stop_heartbeats": Plan.of(False, few, fault="stop_heartbeats"),
        "give_up": Plan.of(False, few, fault="give_up"),
    }


async def run_fleets(say: Callable[[str], None], rows: int = 20_000) -> int:
    """The long run of fleets."""
    return await run_plans("fleet", fleet_plans(rows), say)
