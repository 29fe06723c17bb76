"""Plays the demo's scenario: workers run the app's jobs for some seconds, and one is killed while it runs jobs."""

import asyncio
import logging
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import msgspec
from msgspec import Struct

from headrace.cli.demo.app import MAIL, MEDIA, TENANTS, WEB, app
from headrace.cli.demo.producer import DemoSender
from headrace.model.clock import monotonic_ms
from headrace.model.errors import HeadraceError
from headrace.model.results import Counts
from headrace.stores.catalog import all_queues

LOOK_MS = 200
"""Between two views of the counts."""
LEASE = "2s"
"""Short, so that other workers soon take over the jobs of the killed one."""
TIMEOUT_S = 60
"""For the start of a worker and for the last jobs, which take a second or two on an idle machine."""
CRAWLER = "crawler-1"
HELD_JOBS = 4
"""Jobs that the worker holds when it is killed."""


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
        # Another worker takes over: unclaimed jobs at once, the rest when their leases have expired.
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
    """Start a worker as a process of its own, let it start some jobs, and kill it."""
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
                    if len(held) == HELD_JOBS // 2:  # it claims half of what it can hold at a time
                        break
                else:
                    outcome = f"ended with code {await process.wait()} before it began a job"
    finally:
        with suppress(ProcessLookupError):  # it has ended by itself
            process.kill()
        await process.wait()
    if not held:
        raise HeadraceError(f"the worker that the demo wanted to kill {outcome}; its last line was: {last}")
    return Killed(CRAWLER, process.pid, tuple(held))


def _claimed(line: bytes) -> str | None:
    """The job that a line of a worker's log says has been claimed; None for other lines."""
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
    """The failures are on purpose: silence the workers' log within this block."""
    log = logging.getLogger("headrace")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)
