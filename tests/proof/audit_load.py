"""An audit beside workers that never rest: `python -m tests.proof.audit_load [--store redis] [--jobs 100000]`."""

import argparse
import asyncio
import logging
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from msgspec import Struct
from pyspark.sql import SparkSession

from headrace.model.errors import HeadraceError
from headrace.model.job import Job
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.pipeline.audit.finding import Audit
from headrace.pipeline.audit.run import audit
from headrace.pipeline.start import session
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.worker.config import WorkerConfig
from headrace.worker.handlers import Handlers, handler_of
from headrace.worker.notices import Finished, Notice
from headrace.worker.worker import Worker
from tests.proof.worker_runs import PATIENCE_SECONDS, emptied

BULK = Queue("bulk", "acme", 4)
"""Many jobs, each once."""
BUSY = Queue("busy", "acme", 2)
"""Few ids that everything happens to, of which little is kept."""
SHORT = Queue("short", "other", 1)
"""A journal that is cut while it is read."""
BRIEF = Queue("brief", "other", 2)
"""Comes and goes."""
QUEUES = (BULK, BUSY, BUSY.companion, SHORT)
IDS = [f"id-{number}" for number in range(200)]


class Load:
    """Workers, senders and people who meddle, on one store, in a thread of their own until the block ends."""

    def __init__(self, url: str, jobs: int) -> None:
        self._url, self._jobs = url, jobs
        self._random = Random(jobs)
        self._settled = 0
        self._is_over = False
        self._gone_on = threading.Event()
        self._wanted = 0
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name="load")

    @property
    def settled(self) -> int:
        """Deliveries that have ended so far."""
        return self._settled

    def __enter__(self) -> Self:
        self._thread.start()
        self.until(self._jobs // 10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._is_over = True
        self._thread.join()
        if self._errors and error is None:
            raise self._errors[0]

    def until(self, more: int) -> None:
        """Wait until so many more deliveries have ended."""
        self._wanted = self._settled + more
        self._gone_on.clear()
        if not self._errors and not self._gone_on.wait(PATIENCE_SECONDS * 3):
            raise TimeoutError(f"the workers ended {self._settled:,} deliveries, and were to end {self._wanted:,}")
        if self._errors:
            raise self._errors[0]

    def _notice(self, notice: Notice) -> None:
        if isinstance(notice, Finished):
            self._settled += len(notice.answers)
            if self._settled >= self._wanted:
                self._gone_on.set()

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:  # noqa: BLE001  (whoever waits raises it)
            self._errors.append(error)
            self._gone_on.set()

    async def _work(self) -> None:
        store = await open_store(self._url)
        try:
            await store.queues.configure(
                BUSY,
                {"fail_handler": True, "max_attempts": 2, "backoff_ms": 0, "keep_done_max": 50, "keep_dead_max": 20},
            )
            await store.queues.configure(SHORT, {"journal_keep_max": 300, "keep_done_ms": 1})
            await self._fill(store)
            config = WorkerConfig(queues={BUSY: 3, BUSY.companion: 1, SHORT: 1, BULK: 2}, capacity=50, repair="1s")
            worker = Worker(
                store, self._handlers(), config, reopen=lambda: open_store(self._url), listeners=[self._notice]
            )
            async with worker, asyncio.TaskGroup() as group:
                for act in (self._send, self._meddle, self._come_and_go):
                    group.create_task(self._on_and_on(partial(act, store)))
        finally:
            await store.close()

    def _handlers(self) -> Handlers:
        handlers = Handlers()

        async def well() -> None:
            """Ends well."""

        async def badly() -> None:
            # Others get a turn, so that something happens to a job while it runs.
            await asyncio.sleep(0)
            if self._random.random() < 0.5:
                raise ValueError("it broke")

        async def death(_: object) -> None:
            """Takes note of it."""

        handlers.register(handler_of("well", well), BULK, SHORT)
        handlers.register(handler_of("badly", badly), BUSY)
        handlers.register_fail(handler_of("headrace.fail", death, style="whole"), BUSY)
        return handlers

    async def _fill(self, store: Store) -> None:
        for first in range(0, self._jobs, BATCH_MAX):
            numbers = range(first, min(first + BATCH_MAX, self._jobs))
            await store.jobs.enqueue([Job(queue=BULK, id=f"bulk-{n}", kind="well", payload=b"{}") for n in numbers])

    async def _on_and_on(self, act: Callable[[int], Awaitable[None]]) -> None:
        for number in count():
            if self._is_over:
                return
            # What a store refuses, or could not do among so many, is not what an audit is about.
            with suppress(HeadraceError):
                await act(number)

    async def _send(self, store: Store, number: int) -> None:
        """Ids that are used again and again, and so have twins, updates and many lives."""
        busy = [Job(queue=BUSY, id=id, kind="badly", payload=b"{}") for id in self._random.sample(IDS, 20)]
        short = [Job(queue=SHORT, id=f"short-{number}-{n}", kind="well", payload=b"{}") for n in range(20)]
        await store.jobs.enqueue([*busy, *short])

    async def _meddle(self, store: Store, _: int) -> None:
        ids = self._random.sample(IDS, 10)
        await store.jobs.cancel(BUSY, ids[:4], running=self._random.random() < 0.5)
        await store.jobs.remove(BUSY, ids[4:6])
        letters = [letter.key for letter in (await store.dead.list(BUSY, limit=20)).rows]
        await store.dead.replay(BUSY, letters[:5])
        await store.dead.purge(BUSY, letters[5:8])
        if self._random.random() < 0.05:
            await store.queues.purge(BUSY, limit=20)

    async def _come_and_go(self, store: Store, _: int) -> None:
        """A queue that is made, and deleted in steps."""
        await store.jobs.enqueue([Job(queue=BRIEF, id=id, kind="well") for id in IDS[:50]])
        await store.jobs.cancel(BRIEF, IDS[:50])
        while not await store.queues.delete(BRIEF, limit=20):
            pass


class Run(Struct, frozen=True):
    """An audit, how long it took, and how many deliveries ended meanwhile."""

    audit: Audit
    seconds: float
    settled: int


def run(
    spark: SparkSession, url: str, jobs: int, audits: int, say: Callable[[str], None], *, at_rest: bool = True
) -> list[Run]:
    """Audit a store so often while it is under load, and once when nobody works any more, if that is asked for."""
    runs: list[Run] = []

    def look(load: Load) -> None:
        began, settled = time.monotonic(), load.settled
        found = audit(spark, url, on_progress=lambda step: say(f"  {time.monotonic() - began:5.1f} s {step}"))
        runs.append(Run(found, time.monotonic() - began, load.settled - settled))

    with Load(url, jobs) as load:
        for _ in range(audits):
            look(load)
            load.until(1)
    if at_rest:
        look(load)
    return runs


def main() -> int:
    """Run it, say how it goes, and end with 1 when an audit has found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof.audit_load", description=__doc__)
    parser.add_argument("--store", default="redis", choices=["sqlite", "redis", "postgres"])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--audits", type=int, default=1, help="while the workers run")
    options = parser.parse_args()
    logging.getLogger("headrace").setLevel(logging.CRITICAL)  # every other job fails, as it should
    spark = session("audit under load", "local[2]")
    with tempfile.TemporaryDirectory(prefix="headrace-proof-") as folder:
        url = asyncio.run(emptied(options.store, Path(folder)))
        runs = run(spark, url, options.jobs, options.audits, lambda line: print(line, flush=True))
    spark.stop()
    for each in runs:
        found = each.audit
        print(
            f"audit on {options.store}: {found.jobs:,} jobs, {found.events:,} events in {each.seconds:.1f} s, while"
            f" {each.settled:,} deliveries ended: {found.looks:,} looked at again, {found.moving:,} still moving,"
            f" {found.partly:,} in part, findings {len(found.findings)}"
        )
        for finding in found.findings[:20]:
            print(f"  {finding}")
    return 1 if any(not each.audit.ok for each in runs) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HeadraceError as error:
        sys.exit(str(error))
