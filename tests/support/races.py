"""Processes that work on one store at the same time, some of which are killed."""

import asyncio
import json
import os
import random
from collections.abc import Awaitable, Callable
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, TypeVar

from headrace.model.claim import Claim, ClaimRequest
from headrace.model.job import new_job
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.support.forkserver import CONTEXT

JOBS = 120
PATIENCE_S = 60
"""How long to wait for a process to end."""
Meet = Callable[[], object]
"""Waits until all processes have come here."""
On = TypeVar("On")
Act = Callable[[Store, On, int, Meet], Awaitable[Any]]


def together(count: int, url: str, on: On, act: Act[On]) -> list[Any]:
    """Do the same in `count` processes on a queue or a feed, all starting at one instant; returns what each of them
    returned."""
    meet, answers = CONTEXT.Barrier(count), CONTEXT.SimpleQueue()
    processes = [
        CONTEXT.Process(target=_take_part, args=(url, on, act, number, meet, answers), daemon=True)
        for number in range(count)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE_S)
        assert process.exitcode == 0, f"a process ended with {process.exitcode}"
    return [answers.get() for _ in processes]


def _take_part(url: str, on: On, act: Act[On], number: int, meet: Barrier, answers: Any) -> None:
    async def run() -> Any:
        store = await open_store(url)
        try:
            meet.wait(PATIENCE_S)
            return await act(store, on, number, partial(meet.wait, PATIENCE_S))
        finally:
            await store.close()

    answers.put(asyncio.run(run()))


class Racer:
    """A process that claims until a stop file exists, and logs its claims and the answers to its settlements."""

    def __init__(self, folder: Path, url: str, queue: Queue, name: str, *, lease_ms: int, settles: bool) -> None:
        self.log = folder / f"{name}.log"
        self.log.touch()
        self._process = CONTEXT.Process(
            target=_race, args=(url, queue, name, self.log, folder / "stop", lease_ms, settles), daemon=True
        )
        self._process.start()

    def lines(self) -> list[dict[str, Any]]:
        """The lines of its log so far, without a last line that a kill has cut."""
        return [json.loads(line) for line in self.log.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def kill(self) -> None:
        """End it in the midst of its work, as a power cut would."""
        self._process.kill()
        self._process.join(PATIENCE_S)

    def join(self) -> None:
        """Wait until it has stopped by itself."""
        self._process.join(PATIENCE_S)
        assert self._process.exitcode == 0, f"{self.log.stem} ended with {self._process.exitcode}"


def _race(url: str, queue: Queue, name: str, log: Path, stop: Path, lease_ms: int, settles: bool) -> None:
    asyncio.run(_claim_until(url, queue, name, log, stop, lease_ms, settles))


async def _claim_until(url: str, queue: Queue, name: str, log: Path, stop: Path, lease_ms: int, settles: bool) -> None:
    store = await open_store(url)
    with log.open("a", buffering=1) as log_file:
        while not stop.exists():  # noqa: ASYNC240 - a file is what another process can see
            request = ClaimRequest(queues=[queue], worker=name, nonce=os.urandom(8).hex(), limit=4, lease_ms=lease_ms)
            claims = (await store.jobs.claim(request)).items
            for claim in claims:
                log_file.write(json.dumps({"claimed": claim.record.id, "fence": claim.lease.fence}) + "\n")
            if claims and settles:
                await _settle(store, claims, log_file.write)
            elif not claims:
                await store.signals.wait([queue], 20)
    await store.close()


async def _settle(store: Store, claims: list[Claim], write: Callable[[str], object]) -> None:
    for answer in await store.jobs.settle([claim.settle(Done()) for claim in claims]):
        write(json.dumps({"settled": answer.id, "status": answer.status}) + "\n")


# Functions that several processes run.


async def enqueue_the_same(store: Store, queue: Queue, number: int, _: Meet) -> list[str]:
    """Enqueue the same ids and the same keys as the others, in an order of its own."""
    jobs = [new_job(queue, "send", b"1", fresh_id="", id=f"job-{each}") for each in range(JOBS)]
    jobs += [new_job(queue, "send", b"1", fresh_id="", idempotency_key=f"key-{each}") for each in range(JOBS)]
    random.Random(number).shuffle(jobs)
    answers: list[str] = []
    for start in range(0, len(jobs), 7):
        answers += [answer.status for answer in await store.jobs.enqueue(jobs[start : start + 7])]
    return answers


async def claim_all(store: Store, queue: Queue, number: int, _: Meet) -> list[tuple[str, int]]:
    """Claim until nothing is left; returns the ids and fences."""
    found: list[tuple[str, int]] = []
    for turn in range(JOBS):
        request = ClaimRequest(queues=[queue], worker=f"worker-{number}", nonce=f"nonce-{number}-{turn}", limit=5)
        claims = (await store.jobs.claim(request)).items
        found += [(claim.record.id, claim.lease.fence) for claim in claims]
        if not claims:
            break
    return found


async def repair_all(store: Store, queue: Queue, number: int, _: Meet) -> int:
    """Repair again and again; returns how many leases this process took back."""
    found = 0
    for _turn in range(JOBS // 4):
        found += (await store.jobs.repair(queue, limit=10)).stalled
    return found


async def settle_the_same(store: Store, queue: Queue, number: int, meet: Meet) -> list[str]:
    """Settle the same deliveries as the others, found by a repeated nonce."""
    request = ClaimRequest(queues=[queue], worker="worker-0", nonce="nonce-shared", limit=JOBS)
    claims = (await store.jobs.claim(request)).items
    assert len(claims) == JOBS, "a repeated nonce gives the claims of the first call"
    meet()
    answers: list[str] = []
    for claim in claims:
        answers += [answer.status for answer in await store.jobs.settle([claim.settle(Done())])]
    return answers
