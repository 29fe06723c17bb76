"""Plays the demo's scenario: sends jobs for some seconds, runs them by workers, and kills a busy worker."""

import asyncio
import itertools
import logging
import random
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import msgspec
from msgspec import Struct

from headrace.cli.demo.app import (
    MAIL,
    MEDIA,
    TENANTS,
    WEB,
    app,
    charge_card,
    crawl_site,
    daily_report,
    flash_sale,
    resize_image,
    sync_crm,
    warm_cache,
    welcome_mail,
)
from headrace.model.clock import SystemClock, monotonic_ms
from headrace.model.errors import HeadraceError
from headrace.model.job import Job
from headrace.model.results import Counts
from headrace.stores.catalog import all_queues

LOOK_MS = 200
"""Between two views of the counts."""
LEASE = "2s"
"""Short, so that other workers soon take over the jobs of the killed worker."""
TIMEOUT_S = 60
"""For the start of a worker and for the last jobs: a second or two on an idle machine."""
CRAWLER = "crawler-1"
HELD_JOBS = 4
"""Jobs that the killed worker holds."""
SEND_MS = 11_000
"""Time for which jobs are sent."""
TICK_MS = 200
RUSH_AT, RUSH_SIZE = 0.45, 12
"""The time of the rush, as a share of the whole time, and its size in ticks."""
CRAWLS = 18
MIX = {
    welcome_mail: 50,
    sync_crm: 12,
    charge_card: 8,
    daily_report: 3,
    flash_sale: 5,
    resize_image: 14,
    warm_cache: 8,
}
"""Percentages."""


class DemoView(Struct, frozen=True):
    """The state of the running scenario."""

    seconds: float
    sent: int
    counts: Counts
    killed: "Killed | None"


class Killed(Struct, frozen=True):
    """A killed worker, and the jobs it held."""

    worker: str
    process: int
    jobs: tuple[str, ...]


class _LogLine(Struct, frozen=True):
    event: str = ""
    id: str | None = None


class Played(Struct, frozen=True):
    """The played scenario."""

    seconds: float
    sent: int
    killed: Killed


async def play(url: str, jobs: int, on_view: Callable[[DemoView], None]) -> Played:
    """Send jobs to the store at `url` and run them, until nothing is due; `on_view` gets its state."""
    app.use_url(url)
    begun_ms, sender = monotonic_ms(), DemoSender(jobs)
    killed: list[Killed] = []

    async def look() -> Counts:
        counts = await _counts()
        last = killed[0] if killed else None
        on_view(DemoView((monotonic_ms() - begun_ms) / 1_000, sender.sent, counts, last))
        return counts

    async def crawl() -> None:
        killed.append(await kill_a_worker(url))
        # Another worker takes over: unclaimed jobs at once, the rest when their leases expire.
        async with app.worker(name="crawler-2", queues=[WEB], lease=LEASE, poll="500ms", capacity=HELD_JOBS):
            await over.wait()

    over = asyncio.Event()
    async with (
        app,
        app.worker(name="mailer", queues=[*MAIL.values(), MAIL["acme"].fail_queue], poll="500ms", capacity=6),
        app.worker(name="painter", queues=list(MEDIA.values()), poll="500ms", capacity=14),
        asyncio.TaskGroup() as tasks,
    ):
        sending = tasks.create_task(sender.run())
        tasks.create_task(crawl())
        last_ms = None
        while last_ms is None or monotonic_ms() < last_ms:
            await asyncio.sleep(LOOK_MS / 1_000)
            counts = await look()
            if sending.done() and killed:
                last_ms = last_ms or monotonic_ms() + TIMEOUT_S * 1_000
                if _is_over(counts, len(sender.tomorrow)):
                    break
        over.set()
    return Played((monotonic_ms() - begun_ms) / 1_000, sender.sent, killed[0])


async def kill_a_worker(url: str) -> Killed:
    """Start a worker in a separate process, let it start some jobs, and kill it."""
    words = ("worker", "headrace.cli.demo.app:app", "--url", url, "--tenant", WEB.tenant, "--queues", WEB.name)
    settings = ("--name", CRAWLER, "--capacity", str(HELD_JOBS), "--lease", LEASE, "--log", "json", "--no-wait")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "headrace.cli.main", *words, *settings, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
    )
    held: list[str] = []
    last, outcome = "nothing", f"began no job in {TIMEOUT_S} s"
    assert process.stderr is not None
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):
                async for line in process.stderr:
                    if (id := _claimed(line)) is not None:
                        held.append(id)
                    last = line.decode(errors="replace").strip() or last
                    if len(held) == HELD_JOBS // 2:  # a claim takes half of its capacity
                        break
                else:
                    outcome = f"ended with code {await process.wait()} before it began a job"
    finally:
        with suppress(ProcessLookupError):  # the process has ended
            process.kill()
        await process.wait()
    if not held:
        raise HeadraceError(f"the worker that the demo wanted to kill {outcome}; its last line was: {last}")
    return Killed(CRAWLER, process.pid, tuple(held))


def _claimed(line: bytes) -> str | None:
    """The claimed job of a line of a worker's log; None for other lines."""
    try:
        event = msgspec.json.decode(line, type=_LogLine)
    except msgspec.DecodeError:
        return None
    return event.id if event.event == "claimed" else None


async def _counts() -> Counts:
    client, counts = await app.client(), Counts()
    for tenant in TENANTS:
        for queue in await all_queues(client.store, tenant):
            counts += await client.store.queues.counts(queue)
    return counts


def _is_over(counts: Counts, tomorrow: int) -> bool:
    return counts.active == counts.blocked == 0 and counts.waiting <= tomorrow


@asynccontextmanager
async def quiet() -> AsyncIterator[None]:
    """Silence the workers' log within this block: the failures are on purpose."""
    log = logging.getLogger("headrace")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)


class DemoSender:
    """Sends `jobs` jobs or a few more, and counts them."""

    def __init__(self, jobs: int, seed: int = 7) -> None:
        self.sent = 0
        self.tomorrow: list[Job] = []
        """Jobs that are due tomorrow, after the demo."""
        self._rng = random.Random(seed)
        self._numbers = itertools.count(1)
        self._ticks = SEND_MS // TICK_MS
        self._jobs = jobs

    async def run(self) -> None:
        """Send tick by tick; then cancel some of tomorrow's jobs, and replay declined cards."""
        client = await app.client()
        crawls = [crawl_site.options(queue=WEB, id=f"site/{site}").job(site=site) for site in range(1, CRAWLS + 1)]
        await client.enqueue_many(crawls[: self._jobs])
        self.sent = min(CRAWLS, self._jobs)
        begun_ms = monotonic_ms()
        for tick, share in enumerate(self._shares()):
            await asyncio.sleep(max(begun_ms + tick * TICK_MS - monotonic_ms(), 0) / 1_000)
            jobs = list(itertools.islice(self._stream(), share))
            await client.enqueue_many(jobs)
            self.sent += len(jobs)
        await self._cancel_and_replay()

    def _shares(self) -> list[int]:
        """The number of jobs of each tick; together all but the crawls."""
        weights = [RUSH_SIZE if tick == int(self._ticks * RUSH_AT) else 1 for tick in range(self._ticks)]
        left, parts = max(self._jobs - CRAWLS, 0), sum(weights)
        ends = [left * weight // parts for weight in itertools.accumulate(weights)]
        return [end - begin for begin, end in itertools.pairwise([0, *ends])]

    def _stream(self) -> Iterator[Job]:
        while True:
            yield self._job(next(self._numbers))

    def _job(self, number: int) -> Job:
        tenant = self._rng.choices(TENANTS, (2, 1))[0]
        kind = self._rng.choices(list(MIX), list(MIX.values()))[0]
        mail, media = MAIL[tenant], MEDIA[tenant]
        if kind is warm_cache:
            page = number % 5
            return warm_cache.options(queue=media, id=f"page/{page}").job(page=page)
        if kind is resize_image:
            return resize_image.options(queue=media, id=f"image/{number}").job(number=number)
        if kind is daily_report:
            is_far = number % 3 == 0
            delay = "1d" if is_far else f"{self._rng.randint(500, 2_500)}ms"
            report = daily_report.options(queue=mail, id=f"report/{number}", delay=delay).job(number=number)
            self.tomorrow += [report] * is_far
            return report
        if kind is flash_sale:
            until_ms = SystemClock().now_ms() + self._rng.randint(100, 1_500)
            return flash_sale.options(queue=mail, id=f"sale/{number}", expires_at=until_ms).job(number=number)
        if kind is charge_card:
            return charge_card.options(queue=mail, id=f"order/{number}", tag="money").job(order=number)
        if kind is sync_crm:
            return sync_crm.options(queue=mail, id=f"customer/{number}").job(customer=number)
        return welcome_mail.options(queue=mail, id=f"user/{number}").job(user=number)

    async def _cancel_and_replay(self) -> None:
        client = await app.client()
        dropped, self.tomorrow = self.tomorrow[:5], self.tomorrow[5:]
        for job in dropped:
            await client.cancel(job.queue, job.id)
        for queue in MAIL.values():
            dead_letters = [
                each for each in (await client.store.dead.list(queue)).rows if each.record.kind == charge_card.kind
            ]
            if dead_letters:
                await client.store.dead.replay(queue, [dead_letter.key for dead_letter in dead_letters[::2]])
