"""The demo: jobs of several kinds and tenants run through SQLite, then Spark tells from the journal what happened."""

import argparse
import asyncio
import heapq
import random
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from headrace.model.claim import Claim, ClaimRequest
from headrace.model.clock import ManualClock, SystemClock, monotonic_ms
from headrace.model.errors import BadConfig
from headrace.model.event import EVENTS
from headrace.model.job import Job, State
from headrace.model.names import Queue
from headrace.model.outcome import Done, Fail, JobError, Outcome, Retry
from headrace.model.policy import Policy
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

JOBS_DEFAULT, JOBS_MAX = 400, 100_000
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
_SECOND_MS, _HOUR_MS = 1_000, 3_600_000
_WAVES, _SLOTS, _LEASE_MS = 10, 6, 30_000
_Answer = TypeVar("_Answer")
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
            delay_ms = 24 * _HOUR_MS if number % 3 == 0 else self.chance.randrange(1, 10) * 60 * _SECOND_MS
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

        return [(start_ms + first // size * 4 * _SECOND_MS, wave(first)) for first in range(0, jobs, size)]

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
        waves, horizon_ms = list(waves), self.clock.now_ms() + _HOUR_MS
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
        changes = {"keep_done_ms": 30 * 24 * _HOUR_MS, "keep_done_max": JOBS_MAX, "fail_handler": name == "mail"}
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


class Check(Struct, frozen=True):
    """A number that Spark took from the journal, beside the store's own."""

    what: str
    journal: int
    store: int


async def compare(store: Store, events: int, standing: Sequence[dict[str, Any]], clock: ManualClock) -> list[Check]:
    """Lay what Spark counted beside what the store says of itself."""
    seen = {(row["tenant"], row["queue"]): row for row in standing}
    checks, written = [], 0
    for tenant in TENANTS:
        for queue in (await store.queues.names(tenant)).rows:
            bounds = [await store.journal.bounds(shard) for shard in queue.all_shards()]
            written += sum(each.last_seq - each.first_seq + 1 for each in bounds)
            counts = await store.queues.counts(queue, now_ms=clock.now_ms())
            said = {"open": counts.waiting + counts.active, "done": counts.done}
            said |= {"cancelled": counts.cancelled, "dead": counts.dead}
            row = seen.get((tenant, queue.full_name), {})
            name = f"{tenant}/{queue.full_name}"
            checks += [Check(f"{name} {state}", row.get(state, 0), count) for state, count in said.items()]
    return [Check("events", events, written), *checks]


async def _with_store(url: str, clock: ManualClock, use: Callable[[Store], Awaitable[_Answer]]) -> _Answer:
    store = await open_store(url, clock=clock)
    try:
        return await use(store)
    finally:
        await store.close()


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("demo", help="run jobs through SQLite and let Spark tell what happened")
    parser.add_argument("--jobs", type=int, default=JOBS_DEFAULT, help=f"how many jobs (default {JOBS_DEFAULT})")
    parser.add_argument("--dir", type=Path, help="folder for the files (default: a new temporary one)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of tables")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Play, read, compare, show; 1 when the journal and the store disagree."""
    if not 1 <= given.jobs <= JOBS_MAX:
        raise BadConfig(f"--jobs must be from 1 to {JOBS_MAX:,}; found {given.jobs:,}")
    started_ms, folder = monotonic_ms(), _folder(given.dir)
    console = Console(quiet=given.json, highlight=False, soft_wrap=True)
    # An hour and a half back: the story ends before the present, as a history should.
    clock = ManualClock(SystemClock().now_ms() - 3 * _HOUR_MS // 2)
    begun_ms, url, table = (
        clock.now_ms(),
        f"sqlite:///{quote(str(folder / 'jobs.db'))}?profile=fast",
        str(folder / "jobs"),
    )

    console.print(f"[bold]1. Jobs[/]  {given.jobs:,} of {len(KINDS)} kinds, {len(TENANTS)} tenants, into SQLite …")
    for kind, what in KINDS.items():
        console.print(f"         {kind:<15}[dim]{what}[/]")
    deliveries = asyncio.run(_with_store(url, clock, lambda store: play(store, given.jobs, Work(), clock)))
    minutes = (clock.now_ms() - begun_ms) / 60 / _SECOND_MS
    console.print(
        f"         workers took {deliveries:,} deliveries; {minutes:.0f} minutes on the demo's clock,"
        f" {(monotonic_ms() - started_ms) / 1_000:.1f} s on yours"
    )
    console.print("[bold]2. Spark[/] starting, a few seconds …")
    # Imported now, not above: Spark's packages take a second that the first lines need not wait for.
    from headrace.pipeline.run import summarise, write_jobs
    from headrace.pipeline.session import SHORT_RUN, session

    spark = session("headrace demo", **SHORT_RUN)
    try:
        console.print("         folding the journal into the table of jobs …")
        write_jobs(spark, url, table)
        console.print("         counting …")
        summary = summarise(spark, url, table)
    finally:
        spark.stop()
    checks = asyncio.run(_with_store(url, clock, lambda store: compare(store, summary.events, summary.standing, clock)))
    is_ok = all(check.journal == check.store for check in checks)
    seconds = (monotonic_ms() - started_ms) / 1_000
    if given.json:
        found = {"ok": is_ok, "seconds": seconds, "url": url, "table": table, "summary": summary, "checks": checks}
        print(msgspec.json.encode(found).decode())
    else:
        _show(console, summary, checks)
        _close(console, url, table, seconds, checks)
    return 0 if is_ok else 1


def _folder(given: Path | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    folder = given.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadConfig(f"--dir {given} exists and is not an empty folder; name a new one, or leave it out")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _show(console: Console, summary: Any, checks: Sequence[Check]) -> None:
    told = _grid("kind", "jobs", "done", "dead", "cancelled", "open", "deliveries")
    for row in summary.outcomes_by_kind:
        numbers = (row[name] for name in ("jobs", "done", "dead", "cancelled", "open", "deliveries"))
        told.add_row(row["kind"], *map(_number, numbers))
    _print(
        console,
        "What became of the jobs",
        "A job counts once for each life: warm-cache and replayed ones live again.",
        told,
    )

    queues = sorted({f"{row['tenant']}/{row['queue']}" for row in summary.events_by_queue})
    counts = {(row["event"], f"{row['tenant']}/{row['queue']}"): row["events"] for row in summary.events_by_queue}
    events = _grid("event", *(queue.replace("/", "\n") for queue in queues))
    for event in dict.fromkeys(row["event"] for row in sorted(summary.events_by_queue, key=_by_way)):
        events.add_row(event, *(_number(counts.get((event, queue), 0)) for queue in queues))
    _print(
        console,
        f"The journal's {summary.events:,} events",
        "Every step of every job, written with the step itself.",
        events,
    )

    times = _grid("kind", "deliveries", "wait p50", "wait p95", "run p50", "run p95")
    for row in summary.times_by_kind:
        measured = (_duration(row[name]) for name in ("wait_p50", "wait_p95", "run_p50", "run_p95"))
        times.add_row(row["kind"], _number(row["deliveries"]), *measured)
    _print(console, "Waiting and running", "From due to claimed, and from claimed to settled.", times)

    attempts = _grid("failed attempts", "done", "dead", "cancelled")
    for row in summary.jobs_by_attempts:
        attempts.add_row(str(row["attempts"]), *(_number(row[name]) for name in ("done", "dead", "cancelled")))
    _print(console, "Attempts", "How often jobs failed before they ended.", attempts)

    deaths = _grid("reason", "kind", "error", "example", "deaths", text=4)
    for row in summary.deaths_by_reason:
        deaths.add_row(row["reason"], row["kind"], row["error_class"], row["example"], _number(row["deaths"]))
    _print(console, "Deaths", "Each left a letter that can be read, searched and replayed.", deaths)

    seen = {check.what: check for check in checks}
    table = _grid("queue", "open", "done", "cancelled", "dead")
    for queue in queues:
        table.add_row(queue, *(_compared(seen[f"{queue} {state}"]) for state in ("open", "done", "cancelled", "dead")))
    _print(
        console, "Does the journal tell the truth?", "Spark's count, beside the store's own where they differ.", table
    )


def _close(console: Console, url: str, table: str, seconds: float, checks: Sequence[Check]) -> None:
    wrong = [check for check in checks if check.journal != check.store]
    if wrong:
        console.print(f"[bold red]{len(wrong)} of {len(checks)} numbers differ[/] between the journal and the store:")
        for check in wrong:
            console.print(f"  {check.what}: {check.journal:,} in the journal, {check.store:,} in the store")
    else:
        console.print(
            f"[bold green]All {len(checks)} numbers that Spark read from the journal equal the store's own.[/]"
        )
    console.print(f"\nIt took {seconds:.0f} s. The store and the Parquet table are here:\n  {url}\n  {table}")
    console.print("\nTry next, in Python:")
    for line in (
        "from headrace.pipeline.session import session",
        "spark = session()",
        f"spark.read.format('headrace').options(url='{url}', tenant='acme').load().show()",
        f"spark.read.parquet('{table}').where(\"outcome = 'dead'\").select('id', 'reason', 'error_message').show()",
    ):
        console.print(f"  {line}", markup=False)


def _grid(*columns: str, text: int = 1) -> Table:
    """A table whose first `text` columns hold words, and the others numbers."""
    grid = Table(box=SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(columns):
        grid.add_column(name, justify="left" if position < text else "right", no_wrap=position == 0)
    return grid


def _print(console: Console, title: str, why: str, grid: Table) -> None:
    console.print(f"\n[bold]{title}[/]\n[dim]{why}[/]")
    console.print(grid)


def _number(count: int) -> str:
    return f"{count:,}" if count else "[dim]·[/]"


def _duration(ms: int) -> str:
    return f"{ms} ms" if ms < _SECOND_MS else f"{ms / _SECOND_MS:.1f} s"


def _compared(check: Check) -> str:
    if check.journal == check.store:
        return f"{check.journal:,} [green]✓[/]"
    return f"[red]{check.journal:,} ≠ {check.store:,}[/]"


def _by_way(row: dict[str, Any]) -> int:
    """Events in the order in which a job meets them."""
    return EVENTS.index(row["event"])
