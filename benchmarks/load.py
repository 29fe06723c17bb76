"""The work that is measured: all jobs enqueued, then all claimed, then all settled, in batches of one size."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from headrace.model.claim import ClaimRequest
from headrace.model.job import Job
from headrace.model.names import Queue, uuid7
from headrace.model.outcome import Done
from headrace.stores.contract.store import Store

BATCHES = (1, 10, 100, 1_000)
PAYLOAD = json.dumps({"user_id": 42, "text": "x" * 75}).encode()
QUEUE = Queue("bench", "acme")
OPERATIONS = ("enqueue", "claim", "settle")


WARM_UPS = 20


class Raw(Protocol):
    """The least that a queue could do on the same server: plain rows, without checks, journal, finished jobs or
    answers."""

    def insert(self, ids: list[list[str]], payload: bytes) -> Iterator[Callable[[], object]]:
        """One call per batch that inserts it."""

    def claim(self, limit: int) -> list[str]:
        """Take the first rows in order."""

    def delete(self, ids: list[str]) -> object:
        """Drop rows."""

    def close(self) -> None:
        """Let go of the server."""


class Meter:
    """What one run took, by operation: jobs a second, and the server's own microseconds a job where it tells them."""

    def __init__(self, cpu_s: Callable[[], float] | None = None) -> None:
        self._cpu_s = cpu_s
        self.rates: dict[str, float] = {}
        self.cpu_us: dict[str, float] = {}

    @contextmanager
    def measure(self, operation: str, jobs: int) -> Iterator[None]:
        """Measure what is done inside."""
        cpu_s = self._cpu_s() if self._cpu_s else 0.0
        start = time.perf_counter()
        yield
        self.rates[operation] = jobs / (time.perf_counter() - start)
        if self._cpu_s:
            self.cpu_us[operation] = (self._cpu_s() - cpu_s) / jobs * 1e6


def jobs_of(batch: int, quick: bool) -> int:
    """How many jobs a run of this batch size takes: enough for a second or so."""
    full = {1: 3_000, 10: 20_000, 100: 60_000, 1_000: 100_000}[batch]
    return full // 20 if quick else full


def ids_of(total: int, batch: int, salt: int) -> list[list[str]]:
    """Ids as users have them, in batches."""
    ids = [
        uuid7(1_700_000_000_000 + each // 100, (each * 2_654_435_761 + salt).to_bytes(10, "big"))
        for each in range(total)
    ]
    return [ids[start : start + batch] for start in range(0, total, batch)]


def jobs_with(ids: list[str]) -> list[Job]:
    """Jobs with these ids."""
    return [Job(queue=QUEUE, id=id, kind="send", payload=PAYLOAD) for id in ids]


def claim_of(nonce: str, limit: int) -> ClaimRequest:
    """A claim whose leases outlive the run."""
    return ClaimRequest(queues=[QUEUE], worker="worker-1", nonce=nonce, limit=limit, lease_ms=600_000)


async def warm_up(store: Store) -> None:
    """Let a few jobs live: a queue's first calls make it, and a store may go slower ways for some calls after that."""
    for [id] in ids_of(WARM_UPS, 1, 1 << 40):
        await store.jobs.enqueue(jobs_with([id]))
        claims = (await store.jobs.claim(claim_of(f"warm-{id}", 1))).items
        await store.jobs.settle([claim.settle(Done()) for claim in claims])


async def measure_store(store: Store, batch: int, total: int, salt: int, meter: Meter) -> None:
    """Measure one store at one batch size."""
    await warm_up(store)
    batches = [jobs_with(ids) for ids in ids_of(total, batch, salt)]
    with meter.measure("enqueue", total):
        for jobs in batches:
            await store.jobs.enqueue(jobs)
    claimed = []
    with meter.measure("claim", total):
        for number in range(len(batches)):
            claimed.append((await store.jobs.claim(claim_of(f"nonce-{salt}-{number:08}", batch))).items)  # noqa: PERF401
    assert sum(map(len, claimed)) == total, "not everything was handed out"
    with meter.measure("settle", total):
        for items in claimed:
            await store.jobs.settle([claim.settle(Done(), 5) for claim in items])


def measure_raw(raw: Raw, batch: int, total: int, salt: int, meter: Meter) -> None:
    """Measure the same with plain rows."""
    batches = ids_of(total, batch, salt)
    inserts = list(raw.insert(batches, PAYLOAD))
    with meter.measure("enqueue", total):
        for insert in inserts:
            insert()
    with meter.measure("claim", total):
        claimed = [raw.claim(batch) for _ in batches]
    assert sum(map(len, claimed)) == total, "not everything was handed out"
    with meter.measure("settle", total):
        for ids in claimed:
            raw.delete(ids)


def raw_inserts(raw: Raw, total: int, batch: int, salt: int, payload: bytes = PAYLOAD) -> float:
    """Plain rows a second."""
    inserts = list(raw.insert(ids_of(total, batch, salt), payload))
    start = time.perf_counter()
    for insert in inserts:
        insert()
    return total / (time.perf_counter() - start)
