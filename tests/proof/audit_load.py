"""Audits a store under load: `python -m tests.proof.audit_load [--store redis] [--jobs 100000]`."""

import argparse
import asyncio
import logging
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Self

from msgspec import Struct
from pyspark.sql import SparkSession

from headrace.model.errors import HeadraceError
from headrace.model.job import Job
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.pipeline.audit.findings import AuditReport
from headrace.pipeline.audit.run import audit
from headrace.pipeline.spark_session import session
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.worker.config import WorkerConfig
from headrace.worker.events import JobsFinished, WorkerEvent
from headrace.worker.handlers import Handlers, handler_of
from headrace.worker.worker import Worker
from tests.proof.worker_runs import PATIENCE_SECONDS, emptied

BULK = Queue("bulk", "acme", 4)
"""Many jobs, each once."""
BUSY = Queue("busy", "acme", 2)
"""Few ids with all kinds of events, and short retention."""
SHORT = Queue("short", "other", 1)
"""A journal that is trimmed while it is read."""
BRIEF = Queue("brief", "other", 2)
"""A queue that is created and deleted."""
QUEUES = (BULK, BUSY, BUSY.fail_queue, SHORT)
IDS = [f"id-{number}" for number in range(200)]


CONTEXT = multiprocessing.get_context("forkserver")


class Load:
    """Workers and other writers on one store, until the block ends, in a process of their own: in the driver's process
    its calls to Java would wait for them."""

    def __init__(self, url: str, jobs: int) -> None:
        self._jobs = jobs
        self._settled = CONTEXT.Value("q", 0)
        self._moved = CONTEXT.Condition()
        self._is_over = CONTEXT.Event()
        self._process = CONTEXT.Process(target=_work, args=(url, jobs, self._settled, self._moved, self._is_over))

    @property
    def settled(self) -> int:
        """Deliveries that have ended so far."""
        return int(self._settled.value)

    def __enter__(self) -> Self:
        self._process.start()
        self.until(self._jobs // 10)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._process.join(PATIENCE_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def until(self, more: int) -> None:
        """Wait until this many more deliveries have ended."""
        wanted = self.settled + more
        with self._moved:
            self._moved.wait_for(lambda: self.settled >= wanted or not self._process.is_alive(), PATIENCE_SECONDS * 3)
        if self.settled < wanted:
            raise TimeoutError(f"the workers settled {self.settled:,} deliveries; expected {wanted:,}")


def _work(url: str, jobs: int, settled: Any, moved: Any, is_over: Any) -> None:
    logging.getLogger("headrace").setLevel(logging.CRITICAL)  # every other job fails, as it should
    try:
        asyncio.run(LoadProgram(url, jobs, settled, moved, is_over).work())
    finally:
        with moved:
            moved.notify_all()


class LoadProgram:
    """The workers and writers of a load."""

    def __init__(self, url: str, jobs: int, settled: Any, moved: Any, is_over: Any) -> None:
        self._url, self._jobs = url, jobs
        self._settled, self._moved, self._is_over = settled, moved, is_over
        self._random = Random(jobs)

    def _notice(self, notice: WorkerEvent) -> None:
        if isinstance(notice, JobsFinished):
            with self._moved:
                self._settled.value += len(notice.answers)
                self._moved.notify_all()

    async def work(self) -> None:
        """Run until the load ends."""
        store = await open_store(self._url)
        try:
            await store.queues.configure(
                BUSY,
                {"fail_handler": True, "max_attempts": 2, "backoff_ms": 0, "keep_done_max": 50, "keep_dead_max": 20},
            )
            await store.queues.configure(SHORT, {"journal_keep_max": 300, "keep_done_ms": 1})
            await self._fill(store)
            config = WorkerConfig(queues={BUSY: 3, BUSY.fail_queue: 1, SHORT: 1, BULK: 2}, capacity=50, repair="1s")
            worker = Worker(
                store, self._handlers(), config, reopen=lambda: open_store(self._url), listeners=[self._notice]
            )
            async with worker, asyncio.TaskGroup() as group:
                for act in (self._send, self._change_jobs, self._replace_queue):
                    group.create_task(self._repeat(partial(act, store)))
        finally:
            await store.close()

    def _handlers(self) -> Handlers:
        handlers = Handlers()

        async def well() -> None:
            """Succeeds."""

        async def badly() -> None:
            # Let other tasks run, so that jobs change while they are active.
            await asyncio.sleep(0)
            if self._random.random() < 0.5:
                raise ValueError("it broke")

        async def death(_: object) -> None:
            """Handles a dead job."""

        handlers.register(handler_of("well", well), BULK, SHORT)
        handlers.register(handler_of("badly", badly), BUSY)
        handlers.register_fail(handler_of("headrace.fail", death, style="whole"), BUSY)
        return handlers

    async def _fill(self, store: Store) -> None:
        for first in range(0, self._jobs, BATCH_MAX):
            numbers = range(first, min(first + BATCH_MAX, self._jobs))
            await store.jobs.enqueue([Job(queue=BULK, id=f"bulk-{n}", kind="well", payload=b"{}") for n in numbers])

    async def _repeat(self, act: Callable[[int], Awaitable[None]]) -> None:
        for number in count():
            if self._is_over.is_set():
                return
            # Refusals and conflicts are expected under load.
            with suppress(HeadraceError):
                await act(number)

    async def _send(self, store: Store, number: int) -> None:
        """Enqueue few ids repeatedly, which gives blocked jobs, updates and many generations."""
        busy = [Job(queue=BUSY, id=id, kind="badly", payload=b"{}") for id in self._random.sample(IDS, 20)]
        short = [Job(queue=SHORT, id=f"short-{number}-{n}", kind="well", payload=b"{}") for n in range(20)]
        await store.jobs.enqueue([*busy, *short])

    async def _change_jobs(self, store: Store, _: int) -> None:
        ids = self._random.sample(IDS, 10)
        await store.jobs.cancel(BUSY, ids[:4], running=self._random.random() < 0.5)
        await store.jobs.remove(BUSY, ids[4:6])
        dead_letters = [dead_letter.key for dead_letter in (await store.dead.list(BUSY, limit=20)).rows]
        await store.dead.replay(BUSY, dead_letters[:5])
        await store.dead.purge(BUSY, dead_letters[5:8])
        if self._random.random() < 0.05:
            await store.queues.purge(BUSY, limit=20)

    async def _replace_queue(self, store: Store, _: int) -> None:
        """Create a queue, and delete it in steps."""
        await store.jobs.enqueue([Job(queue=BRIEF, id=id, kind="well") for id in IDS[:50]])
        await store.jobs.cancel(BRIEF, IDS[:50])
        while not await store.queues.delete(BRIEF, limit=20):
            pass


class Run(Struct, frozen=True):
    """An audit, how long it took, and how many deliveries ended meanwhile."""

    audit: AuditReport
    seconds: float
    settled: int

    @property
    def words(self) -> str:
        """The report in words."""
        found = self.audit
        summary = (
            f"audit: {found.jobs:,} jobs, {found.events:,} events in {self.seconds:.1f} s, while {self.settled:,}"
            f" deliveries ended: {found.rechecked:,} checked again, {found.moving:,} still moving, {found.partial:,} in"
            f" part, {found.unlisted:,} unlisted, findings {len(found.findings)}"
        )
        return "\n".join([summary, *(f"  {finding}" for finding in found.findings[:20])])


def run(
    spark: SparkSession, url: str, jobs: int, audits: int, say: Callable[[str], None], *, at_rest: bool = True
) -> list[Run]:
    """Audit a store several times under load, and with `at_rest` once after it."""
    runs: list[Run] = []

    def audit_once(load: Load) -> None:
        began, settled = time.monotonic(), load.settled
        found = audit(spark, url, on_progress=lambda step: say(f"  {time.monotonic() - began:5.1f} s {step}"))
        runs.append(Run(found, time.monotonic() - began, load.settled - settled))
        say(runs[-1].words)

    with Load(url, jobs) as load:
        for _ in range(audits):
            audit_once(load)
            load.until(1)
    if at_rest:
        audit_once(load)
    return runs


def run_audits(
    say: Callable[[str], None], stores: Sequence[str], jobs: int, audits: int = 1, *, at_rest: bool = False
) -> int:
    """Audit each store under load; return the number of stores with findings."""
    spark, wrong = session("audit under load", "local[2]"), 0
    try:
        for store in stores:
            say(f"audit: {store}")
            with tempfile.TemporaryDirectory(prefix="headrace-proof-") as folder:
                url = asyncio.run(emptied(store, Path(folder)))
                runs = run(spark, url, jobs, audits, say, at_rest=at_rest)
            wrong += any(not each.audit.ok for each in runs)
    finally:
        spark.stop()
    return wrong


def main() -> int:
    """Run the audits; exit with 1 if one has findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.audit_load", description=__doc__)
    parser.add_argument("--store", default="redis", choices=["sqlite", "redis", "postgres"])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--audits", type=int, default=1, help="audits under load")
    parser.add_argument("--at-rest", action="store_true", help="audit once more after the load")
    options = parser.parse_args()
    say = lambda line: print(line, flush=True)  # noqa: E731  (each line as soon as it is known)
    return run_audits(say, [options.store], options.jobs, options.audits, at_rest=options.at_rest)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HeadraceError as error:
        sys.exit(str(error))
