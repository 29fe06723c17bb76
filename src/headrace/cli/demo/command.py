"""The command: play the story, let Spark read it, compare, show."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import msgspec
import typer
from rich.console import Console

from headrace.cli.demo.show import Check, close, show
from headrace.cli.demo.story import HOUR_MS, JOBS_MAX, KINDS, SECOND_MS, TENANTS, Work, play
from headrace.cli.options import Json
from headrace.model.clock import ManualClock, SystemClock, monotonic_ms
from headrace.model.errors import BadConfig
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

JOBS_DEFAULT = 400
_Answer = TypeVar("_Answer")


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


def command(
    jobs: Annotated[int, typer.Option("--jobs", help="How many jobs.")] = JOBS_DEFAULT,
    dir: Annotated[  # noqa: A002 - the option's name
        Path | None, typer.Option("--dir", help="Folder for the files; else a temporary one.")
    ] = None,
    json: Json = False,
) -> int:
    """Play, read, compare, show; 1 when the journal and the store disagree."""
    if not 1 <= jobs <= JOBS_MAX:
        raise BadConfig(f"--jobs must be from 1 to {JOBS_MAX:,}; found {jobs:,}")
    started_ms, folder = monotonic_ms(), _folder(dir)
    console = Console(quiet=json, highlight=False, soft_wrap=True)
    # An hour and a half back: the story ends before the present, as a history should.
    clock = ManualClock(SystemClock().now_ms() - 3 * HOUR_MS // 2)
    begun_ms, url, table = (
        clock.now_ms(),
        f"sqlite:///{quote(str(folder / 'jobs.db'))}?profile=fast",
        str(folder / "jobs"),
    )

    console.print(f"[bold]1. Jobs[/]  {jobs:,} of {len(KINDS)} kinds, {len(TENANTS)} tenants, into SQLite …")
    for kind, what in KINDS.items():
        console.print(f"         {kind:<15}[dim]{what}[/]")
    deliveries = asyncio.run(_with_store(url, clock, lambda store: play(store, jobs, Work(), clock)))
    minutes = (clock.now_ms() - begun_ms) / 60 / SECOND_MS
    console.print(
        f"         workers took {deliveries:,} deliveries; {minutes:.0f} minutes on the demo's clock,"
        f" {(monotonic_ms() - started_ms) / 1_000:.1f} s on yours"
    )
    console.print("[bold]2. Spark[/] starting, a few seconds …")
    # Imported now, not above: Spark's packages take a second that the first lines need not wait for.
    from headrace.pipeline.run import summarise, write_jobs
    from headrace.pipeline.start import SHORT_RUN, session

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
    if json:
        found = {"ok": is_ok, "seconds": seconds, "url": url, "table": table, "summary": summary, "checks": checks}
        print(msgspec.json.encode(found).decode())
    else:
        show(console, summary, checks)
        close(console, url, table, seconds, checks)
    return 0 if is_ok else 1


def _folder(given: Path | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    folder = given.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadConfig(f"--dir {given} exists and is not an empty folder; name a new one, or leave it out")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
