"""The story that the demo plays: kinds of jobs, their handlers, and a worker for each tenant on a clock of its own."""

import heapq
import random
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from headrace.model.claim import Claim, ClaimRequest
from headrace.model.clock import ManualClock
from headrace.model.job import Job, State
from headrace.model.names import Queue
from headrace.model.outcome import Done, Fail, JobError, Outcome, Retry
from headrace.model.policy import Policy
from headrace.stores.contract.store import Store

JOBS_MAX = 100_000
KINDS = {
    "welcome-mail": "fast, always done",
    "resize-image": "slow, runs for seconds",
    "sync-crm": "flaky, tried again after growing pauses, three times at most",
    "charge-card": "fails for good now and then",
    "crawl-site": "loses its worker now and then, and its lease runs out",
    "warm-cache": "one per page, enqueued again while it runs",
    "daily-report": "scheduled, some for tomorrow",
    "flash-sale": "worthless when late: expires",
    "headrace.fail": "the fail handler, told of each dead mail job",
}
TENANTS = ("acme", "birch")
SHARDS = {"mail": 1, "media": 3}
_OF_QUEUE = {
    "mail": ("welcome-mail", "welcome-mail", "sync-crm", "charge-card", "daily-report", "flash-sale"),
    "media": ("resize-image", "resize-image", "resize-image", "crawl-site", "warm-cache"),
}
SECOND_MS, HOUR_MS = 1_000, 3_600_000
_WAVES, _SLOTS, _LEASE_MS = 10, 6, 30_000
_Wave = tuple[int, Callable[[int], list[Job]]]


class Work:
    """Makes jobs and plays their handlers; chance comes from one seeded source, so that each run is the same."""

    def __init__(self, seed: int = 7) -> None:
        self.chance = random.Random(seed)
        self.queues = {(tenant, name): Queue(name, tenant, SHARDS[name]) for tenant in TENANTS for name in SHARDS}
        self.is_repaired = False
        """The world outside is well again, as it is when somebody replays dead letters."""

    def new_job(self, number: int, now_ms: int) -> Job:
        """The next job to enqueue."""
        tenant, name = self.chance.choices(TENANTS, (2, 1))[0], self.chance.choice(list(SHARDS))
        kind, vip = self.chance.choice(_OF_QUEUE[name]), number % 10 == 0
        delay_ms, expires_at_ms = None, None
        if kind == "daily-report":
            delay_ms = 24 * HOUR_MS if number % 3 == 0 else self.chance.randrange(1, 10) * 60 * SECOND_MS
        elif kind == "flash-sale":
            expires_at_ms = now_ms + self.chance.randrange(1, 60) * 100
        return Job(
            queue=self.queues[tenant, name],
            id=f"page/{number % 5}" if kind == "warm-cache" else f"{kind}/{number:04}",
            kind=kind,
            payload=msgspec.json.encode({"number": number}),
            delay_ms=delay_ms,
            tag="vip" if vip else None,
            policy=Policy(priority=8 if vip else 5, max_attempts=3, max_stalls=2, expires_at_ms=expires_at_ms),
        )

    def waves(self, jobs: int, start_ms: int) -> list[_Wave]:
        """`jobs` jobs in waves, four seconds apart."""
        size = max(min(-(-jobs // _WAVES), 1_000), 1)

        def wave(first: int) -> Callable[[int], list[Job]]:
            return lambda now_ms: [self.new_job(number, now_ms) for number in range(first, min(first + size, jobs))]

        return [(start_ms + first // size * 4 * SECOND_MS, wave(first)) for first in range(0, jobs, size)]

    def handle(self, kind: str) -> tuple[int, Outcome | None]:
        """How long a handler runs, and how it ends; None when its worker dies."""
        luck, span = (1.0 if self.is_repaired else self.chance.random()), self.chance.randrange
        match kind:
            case "resize-image":
                return span(800, 4_000), Done()
            case "warm-cache":
                return span(2_000, 6_000), Done()
            case "sync-crm" if luck < 0.6:
                return span(100, 900), Retry(JobError("Timeout", "the CRM did not answer within a second"))
            case "charge-card" if luck < 0.3:
                return span(50, 200), Fail(JobError("CardDeclined", "the bank said no"))
            case "crawl-site" if luck < 0.5:
                return _LEASE_MS, None
        return span(10, 90), Done(b'"ok"')


class Run(Struct, frozen=True, order=True):
    """A handler at work; ordered by when it ends, then by number."""

    ends_at_ms: int
    number: int
    claim: Claim
    run_ms: int
    outcome: Outcome | None


class Mill:
    """A worker for each tenant, on a clock that jumps to where something happens: hours pass in a second."""

    def __init__(self, store: Store, work: Work, clock: ManualClock) -> None:
        self.store, self.work, self.clock = store, work, clock
        self.running: dict[str, list[Run]] = {tenant: [] for tenant in TENANTS}
        self.claimed = 0

    async def run(self, waves: Sequence[_Wave] = ()) -> None:
        """Enqueue each wave at its time, and work until nothing is left to do within the hour."""
        waves, horizon_ms = list(waves), self.clock.now_ms() + HOUR_MS
        while True:
            now_ms = self.clock.now_ms()
            while waves and waves[0][0] <= now_ms:
                await self.store.jobs.enqueue(waves.pop(0)[1](now_ms), now_ms=now_ms)
            times = [await self._turn(tenant, now_ms) for tenant in TENANTS]
            next_ms = min([horizon_ms, *(each for each in times if each is not None), *(at for at, _ in waves)])
            if next_ms == horizon_ms:
                return
            self.clock.advance(max(next_ms - now_ms, 1))

    async def _turn(self, tenant: str, now_ms: int) -> int | None:
        """Settle what has ended, claim what there is room for; returns when to look again."""
        running, ended = self.running[tenant], []
        while running and running[0].ends_at_ms <= now_ms:
            run = heapq.heappop(running)
            if run.outcome is not None:
                ended.append(run.claim.settle(run.outcome, run.run_ms))
        await self.store.jobs.settle(ended, now_ms=now_ms)
        next_ms = None
        if len(running) < _SLOTS:
            claims = await self.store.jobs.claim(self._request(tenant, _SLOTS - len(running)), now_ms=now_ms)
            next_ms = claims.next_at_ms
            for claim in claims.items:
                self.claimed += 1
                run_ms, outcome = self.work.handle(claim.record.kind)
                heapq.heappush(running, Run(now_ms + run_ms, self.claimed, claim, run_ms, outcome))
        if running and (next_ms is None or len(running) == _SLOTS or running[0].ends_at_ms < next_ms):
            return running[0].ends_at_ms
        return next_ms

    def _request(self, tenant: str, limit: int) -> ClaimRequest:
        mail, media = self.work.queues[tenant, "mail"], self.work.queues[tenant, "media"]
        nonce = f"{self.work.chance.getrandbits(64):016x}"
        queues = [mail, mail.companion, media]
        return ClaimRequest(queues=queues, worker=f"{tenant}-worker", nonce=nonce, limit=limit, lease_ms=_LEASE_MS)


async def play(store: Store, jobs: int, work: Work, clock: ManualClock) -> int:
    """Fill a store with the story of `jobs` jobs; returns how many deliveries there were."""
    for (_, name), queue in work.queues.items():
        changes = {"keep_done_ms": 30 * 24 * HOUR_MS, "keep_done_max": JOBS_MAX, "fail_handler": name == "mail"}
        await store.queues.configure(queue, changes, now_ms=clock.now_ms())
    mill = Mill(store, work, clock)
    await mill.run(work.waves(jobs, clock.now_ms()))
    work.is_repaired = True
    for queue in work.queues.values():
        waiting = await store.reads.list(queue, State.WAITING, limit=2, now_ms=clock.now_ms())
        await store.jobs.cancel(queue, [found.id for found in waiting.rows], now_ms=clock.now_ms())
        dead = await store.dead.list(queue, limit=3, now_ms=clock.now_ms())
        await store.dead.replay(queue, [letter.key for letter in dead.rows], now_ms=clock.now_ms())
    await mill.run()
    return mill.claimed
