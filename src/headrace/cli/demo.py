"""The demo: jobs of several kinds and tenants run through SQLite, then Spark tells from the journal what happened."""

import argparse
import asyncio
import heapq
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from headrace.model.checks import check_int
from headrace.model.claim import Claim, ClaimRequest
from headrace.model.clock import ManualClock, SystemClock, monotonic_ms
from headrace.model.errors import BadConfig
from headrace.model.job import Job
from headrace.model.letter import Letter
from headrace.model.names import Queue
from headrace.model.outcome import Done, Fail, JobError, Outcome, Retry
from headrace.model.policy import Policy
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

JOBS_DEFAULT, JOBS_MAX = 400, 100_000
KINDS = {
    "welcome-mail": "fast, always done",
    "resize-image": "slow, runs for seconds",
    "sync-crm": "flaky, retried with growing pauses",
    "charge-card": "fails for good now and then",
    "crawl-site": "loses its worker, the lease runs out",
    "warm-cache": "one per page: enqueued again while it runs",
    "daily-report": "scheduled, some for tomorrow",
    "flash-sale": "worthless when late, expires",
    "headrace.fail": "the fail handler, told of each dead job",
}
MAIL_KINDS = ("welcome-mail", "welcome-mail", "sync-crm", "charge-card", "daily-report", "flash-sale")
MEDIA_KINDS = ("resize-image", "resize-image", "resize-image", "crawl-site", "warm-cache")
TENANTS = ("acme", "birch")
_SECOND_MS, _HOUR_MS = 1_000, 3_600_000
_WAVES, _SLOTS, _LEASE_MS = 10, 6, 30_000


class Check(Struct, frozen=True):
    """One number that Spark read from the journal, beside the store's own."""

    what: str
    journal: int
    store: int

    @property
    def ok(self) -> bool:
        return self.journal == self.store


class Work:
    """Makes jobs and plays their handlers; chance comes from one seeded source, so each run is the same."""

    def __init__(self, seed: int = 7) -> None:
        self.chance = random.Random(seed)
        self.queues = {
            (tenant, name): Queue(name, tenant, shards) for tenant in TENANTS for name, shards in (("mail", 1), ("media", 3))
        }
        self.is_repaired = False
        """The outside world is well again, as it is when somebody replays dead letters."""

    def new_job(self, number: int, now_ms: int) -> Job:
        """The next job to be enqueued."""
        tenant = self.chance.choices(TENANTS, (2, 1))[0]
        name = self.chance.choice(("mail", "media"))
        kind = self.chance.choice(MAIL_KINDS if name == "mail" else MEDIA_KINDS)
        delay_ms, expires_at_ms = None, None
        if kind == "daily-report":
            delay_ms = 24 * _HOUR_MS if number % 4 == 0 else self.chance.randrange(1, 10) * 60 * _SECOND_MS
        elif kind == "flash-sale":
            expires_at_ms = now_ms + self.chance.randrange(1, 20) * _SECOND_MS
        return Job(
            queue=self.queues[tenant, name],
            id=f"page/{number % 5}" if kind == "warm-cache" else f"{kind}/{number:04}",
            kind=kind,
            payload=msgspec.json.encode({"number": number}),
            delay_ms=delay_ms,
            tag="vip" if number % 10 == 0 else None,
            policy=Policy(
                priority=8 if number % 10 == 0 else 5, max_attempts=3, max_stalls=2, expires_at_ms=expires_at_ms
            ),
        )

    def handle(self, claim: Claim) -> tuple[int, Outcome | None]:
        """How long the handler runs, and how it ends; None when its worker dies."""
        luck = 1.0 if self.is_repaired else self.chance.random()
        match claim.record.kind:
            case "resize-image":
                return self.chance.randrange(800, 4_000), Done()
            case "sync-crm" if luck < 0.6:
                return self.chance.randrange(100, 900), Retry(JobError("Timeout", "the CRM did not answer within 1 s"))
            case "charge-card" if luck < 0.3:
                return self.chance.randrange(50, 200), Fail(JobError("CardDeclined", "the bank said no"))
            case "crawl-site" if luck < 0.5:
                return _LEASE_MS, None
            case "warm-cache":
                return self.chance.randrange(2_000, 6_000), Done()
        return self.chance.randrange(10, 90), Done(b'"ok"')


class Mill:
    """A small loop of workers on a clock of its own: it jumps to where something happens, so nothing waits."""

    def __init__(self, store: Store, work: Work, clock: ManualClock) -> None:
        self.store, self.work, self.clock = store, work, clock
        self.busy: dict[str, int] = dict.fromkeys((f"{tenant}-worker" for tenant in TENANTS), 0)
        self.running: list[tuple[int, int, str, Claim, int, Outcome | None]] = []
        self.claimed = 0

    async def run(self, waves: Sequence[tuple[int, Callable[[int], list[Job]]]]) -> None:
        """Enqueue each wave at its time, and work until nothing is left to do within the hour."""
        upcoming = list(waves)
        horizon_ms = self.clock.now_ms() + _HOUR_MS
        while True:
            now_ms = self.clock.now_ms()
            while upcoming and upcoming[0][0] <= now_ms:
                await self.store.jobs.enqueue(upcoming.pop(0)[1](now_ms), now_ms=now_ms)
            await self._settle(now_ms)
            times = [await self._claim(worker, now_ms) for worker in self.busy]
            times += [self.running[0][0] if self.running else None, upcoming[0][0] if upcoming else None]
            next_ms = min((each for each in times if each is not None), default=horizon_ms)
            if next_ms >= horizon_ms:
                return
            self.clock.advance(max(next_ms - now_ms, 1))

    async def _settle(self, now_ms: int) -> None:
        ended = []
        while self.running and self.running[0][0] <= now_ms:
            _, _, worker, claim, run_ms, outcome = heapq.heappop(self.running)
            self.busy[worker] -= 1
            if outcome is not None:
                ended.append(claim.settle(outcome, run_ms))
        if ended:
            await self.store.jobs.settle(ended, now_ms=now_ms)

    async def _claim(self, worker: str, now_ms: int) -> int | None:
        if self.busy[worker] == _SLOTS:
            return None
        own = [queue for (tenant, _), queue in self.work.queues.items() if worker.startswith(tenant)]
        nonce = f"{self.work.chance.getrandbits(64):016x}"
        request = ClaimRequest(
            queues=[*own, *(queue.companion for queue in own if queue.name == "mail")],
            worker=worker,
            nonce=nonce,
            limit=_SLOTS - self.busy[worker],
            lease_ms=_LEASE_MS,
        )
        claims = await self.store.jobs.claim(request, now_ms=now_ms)
        for claim in claims.items:
            self.claimed += 1
            self.busy[worker] += 1
            run_ms, outcome = self.work.handle(claim)
            heapq.heappush(self.running, (now_ms + run_ms, self.claimed, worker, claim, run_ms, outcome))
            if claim.record.kind == "warm-cache" and self.work.chance.random() < 0.5:
                again = Job(queue=claim.lease.queue, id=claim.record.id, kind="warm-cache")
                await self.store.jobs.enqueue([again], now_ms=now_ms)
        return claims.next_at_ms if self.busy[worker] < _SLOTS else None


async def play(url: str, jobs: int, work: Work, clock: ManualClock) -> int:
    """Fill the store at `url` with the story of `jobs` enqueues; returns how many jobs workers claimed."""
    store = await open_store(url, clock=clock)
    try:
        for (_, name), queue in work.queues.items():
            changes = {"keep_done_ms": 30 * 24 * _HOUR_MS, "keep_done_max": JOBS_MAX, "fail_handler": name == "mail"}
            await store.queues.configure(queue, changes, now_ms=clock.now_ms())
        mill = Mill(store, work, clock)
        await mill.run(list(_waves(jobs, work, clock.now_ms())))
        await _cancel_some(store, work, clock.now_ms())
        await _replay_some(store, work, clock.now_ms())
        await mill.run([])
        return mill.claimed
    finally:
        await store.close()


def _waves(jobs: int, work: Work, start_ms: int) -> Iterator[tuple[int, Callable[[int], list[Job]]]]:
    size = max(min(-(-jobs // _WAVES), 1_000), 1)
    for index, first in enumerate(range(0, jobs, size)):
        numbers = range(first, min(first + size, jobs))
        yield start_ms + index * 4 * _SECOND_MS, lambda now_ms, numbers=numbers: [work.new_job(n, now_ms) for n in numbers]


async def _cancel_some(store: Store, work: Work, now_ms: int) -> None:
    from headrace.model.job import State

    for queue in work.queues.values():
        page = await store.reads.list(queue, State.WAITING, limit=2, now_ms=now_ms)
        await store.jobs.cancel(queue, [found.id for found in page.rows], now_ms=now_ms)


async def _replay_some(store: Store, work: Work, now_ms: int) -> None:
    work.is_repaired = True
    for queue in work.queues.values():
        letters: list[Letter] = (await store.dead.list(queue, limit=3, now_ms=now_ms)).rows
        await store.dead.replay(queue, [letter.key for letter in letters], now_ms=now_ms)
