"""`headrace demo`: runs sample jobs, reports on them with the pipeline, and prints the results."""

import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from headrace.cli.demo.app import KINDS, TENANTS
from headrace.cli.demo.pipeline import DemoReport, Row, read
from headrace.cli.demo.scenario import DemoView, Played, play, quiet
from headrace.cli.exit_codes import NO, OK
from headrace.cli.options import Json
from headrace.cli.output import counted
from headrace.model.clock import monotonic_ms
from headrace.model.errors import BadConfig
from headrace.model.times import duration_text
from headrace.model.validate import check_path
from headrace.pipeline.java import find_java, packaged_java
from headrace.pipeline.packages import check_packages

if TYPE_CHECKING:
    from headrace.pipeline.audit.findings import AuditReport

JOBS_DEFAULT = 1_500
JOBS_MIN, JOBS_MAX = 100, 10_000
"""Fewer jobs would not show each kind; more would take longer than the demo should."""
WIDTH = 120
"""Without a terminal."""
BARS = " ▁▂▃▄▅▆▇█"
FINDINGS_SHOWN = 5


def command(
    jobs: Annotated[int, typer.Option("--jobs", help="Jobs to send.")] = JOBS_DEFAULT,
    dir: Annotated[  # noqa: A002 - the option's name
        Path | None, typer.Option("--dir", help="Folder for the files; a temporary one by default.")
    ] = None,
    json: Json = False,
) -> int:
    """Run sample jobs on SQLite, kill a worker, and report with Spark.

    Takes about a minute. Exits with 1 if the audit finds that the store and its journal disagree.

    Example: headrace demo --jobs 500
    """
    if not JOBS_MIN <= jobs <= JOBS_MAX:
        raise BadConfig(f"--jobs must be from {JOBS_MIN:,} to {JOBS_MAX:,}; found {jobs:,}")
    check_packages()
    find_java(os.environ, packaged_java())
    begun_ms, folder = monotonic_ms(), _folder(dir)
    width = None if sys.stdout.isatty() else WIDTH
    console = Console(quiet=json, highlight=False, soft_wrap=True, width=width)
    # In this folder, commands find the store and the tables under these names.
    url = f"sqlite:///{quote(str(folder / 'headrace.db'))}?profile=fast"
    console.print(f"[bold]1. Jobs[/]   {len(KINDS)} kinds, tenants {' and '.join(TENANTS)}, into a SQLite file:")
    for kind, what in KINDS.items():
        console.print(f"     {kind:<14}[dim]{what}[/]")
    played = asyncio.run(_play(url, jobs, console))
    console.print(played_text(played))
    console.print("\n[bold]2. Spark[/]  from the journal of every job")
    from headrace.pipeline.data_dir import DataDir

    demo = read(
        url,
        DataDir(folder / "headrace-data"),
        played.killed.jobs[0],
        going=lambda name: _going(console, name),
        done=lambda name, demo: console.print(step_text(name, demo)),
    )
    seconds = (monotonic_ms() - begun_ms) / 1_000
    assert demo.audit is not None
    if json:
        print(document(folder, url, played, demo, seconds).decode())
    else:
        show(console, played, demo)
        console.print()
        close(console, folder, demo, demo.audit, seconds)
    return OK if demo.audit.ok else NO


def document(folder: Path, url: str, played: Played, demo: DemoReport, seconds: float) -> bytes:
    """The whole demo as one JSON document."""
    facts = {"ok": demo.audit is not None and demo.audit.ok, "seconds": seconds, "url": url, "folder": str(folder)}
    return msgspec.json.encode(
        {**msgspec.structs.asdict(demo), **facts, "steps": demo.seconds, "played": played},
        enc_hook=str,
    )


def _going(console: Console, name: str) -> Status:
    if name == "map":
        console.print("\n[bold]3. Rows through jobs[/]  a DataFrame of orders, each a job for a fleet of this Spark")
    return console.status(f"{name} …")


async def _play(url: str, jobs: int, console: Console) -> Played:
    with console.status("starting workers") as status:
        async with quiet():
            try:
                return await play(url, jobs, lambda view: status.update(view_text(view)))
            except ExceptionGroup as several:  # tasks raise in groups; only the first error is shown
                raise several.exceptions[0] from several


def _folder(given: Path | None) -> Path:
    if given is None:
        return Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    check_path("--dir", str(given))
    folder = given.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadConfig(f"--dir {given} exists and is not an empty folder; name a new one, or leave it out")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def view_text(view: DemoView) -> str:
    """The progress in a line."""
    counts = view.counts
    line = f"{view.seconds:4.1f} s   {view.sent:,} sent   {counts.done:,} done   {counts.active:,} running"
    line += f"   {counts.waiting - counts.later:,} due   {counts.dead:,} dead"
    return f"{line}   [red]{view.killed.worker} was killed[/]" if view.killed else line


def played_text(played: Played) -> str:
    """The played scenario in two lines."""
    jobs = ", ".join(played.killed.jobs)
    return (
        f"   [green]✓[/] {played.sent:,} jobs sent and run [dim]{played.seconds:.1f} s[/]\n"
        f"   [red]✗[/] {played.killed.worker} (process {played.killed.process}) was killed while it ran {jobs}"
    )


def step_text(name: str, demo: DemoReport) -> str:
    """The result of a step."""
    audit = demo.audit
    results = {
        "spark": "is up",
        "history": f"{demo.events:,} events in {demo.files:,} files by day",
        "jobs": f"{demo.jobs:,} jobs, {demo.attempts:,} attempts",
        "stats": f"{demo.windows:,} windows of a second",
        "errors": f"{demo.fingerprints:,} fingerprints",
        "usage": f"{len(demo.usage):,} tenants",
        "audit": "" if audit is None else f"{audit.jobs:,} jobs compared with {audit.events:,} events",
        "map": f"{sum(demo.outcomes.values()):,} rows through jobs and back: "
        + ", ".join(f"{count:,} {outcome}" for outcome, count in demo.outcomes.items()),
        "report": "" if demo.report is None else f"{demo.report.stat().st_size / 1_024:,.0f} KiB of HTML",
    }
    return f"   [green]✓[/] {name:<9}{results[name]} [dim]{demo.seconds[name]:.1f} s[/]"


def show(console: Console, played: Played, demo: DemoReport) -> None:
    """Print the tables."""
    _print(console, "Second by second", _timeline(demo.timeline))
    kinds = _grid("kind", "jobs", "done", "dead", "cancelled", "open", "wait p95", "run p50", "run p95")
    for row in demo.kinds:
        numbers = (row[name] for name in ("jobs", "done", "dead", "cancelled", "open"))
        times = (_time(row[name]) for name in ("wait_p95", "run_p50", "run_p95"))
        kinds.add_row(row["kind"], *map(_number, numbers), *times)
    _print(console, "The jobs by kind and outcome", kinds)

    errors = _grid("failures", "deaths", "tenant", "error", numbers=2)
    for row in demo.errors:
        template = Text.assemble((f"{row['error_class']}: ", "bold"), row["template"])
        errors.add_row(_number(row["failures"]), _number(row["deaths"]), row["tenant"], template)
    _print(console, "The errors, numbers and addresses folded", errors)

    used = _grid("tenant", "enqueued", "done", "dead", "deliveries", "retried", "stalled", "ran")
    for row in demo.usage:
        names = ("enqueued", "done", "dead", "deliveries", "retried", "stalled")
        used.add_row(row["tenant"], *(_number(row[name]) for name in names), _time(row["run_ms"]))
    _print(console, "Usage by tenant", used)

    life = _grid("after", "event", "worker", numbers=1)
    for row in demo.life:
        after = (row["happened_at"] - demo.life[0]["happened_at"]).total_seconds()
        style = {"stalled": "red", "done": "green"}.get(row["event"], "")
        life.add_row(f"{after:.1f} s", Text(row["event"], style), row["worker"] or "")
    _print(console, f"The events of {played.killed.jobs[0]}, whose worker was killed", life)

    answers = _grid("order", "address", "outcome", "lat", "lon", "error", numbers=1)
    for row in demo.answers:
        error = "" if row["error_class"] is None else f"{row['error_class']}: {row['error_message']}"
        place = ("" if row[name] is None else f"{row[name]:.4f}" for name in ("lat", "lon"))
        style = "green" if row["outcome"] == "done" else "red"
        answers.add_row(_number(row["order"]), row["address"], Text(row["outcome"], style), *place, Text(error))
    _print(console, "Some results of the rows, failures among them", answers)


def close(console: Console, folder: Path, demo: DemoReport, audit: "AuditReport", seconds: float) -> None:
    """Print the result of the audit, the folder of the files, and commands to try next."""
    if audit.ok:
        console.print(f"[bold green]The audit found nothing:[/] store and journal agree on all {audit.jobs:,} jobs.")
    else:
        console.print(f"[bold red]The audit found {counted(len(audit.findings), 'difference')}:[/]")
        for finding in audit.findings[:FINDINGS_SHOWN]:
            line = f"  {finding.what} {finding.id or ''}: {finding.journal}, but {finding.store}; {finding.hint}"
            console.print(line, markup=False)
    if demo.report is not None:
        console.print(f"\n[bold]Look at it:[/] {demo.report.as_uri()}")
    console.print(f"[dim]It took {seconds:.0f} s. Everything is in {folder}; delete it when you are done.[/]")
    console.print("\n[bold]Try next:[/]")
    for command, why in _next(folder):
        console.print(
            Text.assemble(f"  {command:<76}" if why else f"  {command}", (f"  # {why}" if why else "", "dim"))
        )


def _next(folder: Path) -> list[tuple[str, str]]:
    programs = Path(sys.executable).parent
    found = which("headrace") is not None or not (programs / "headrace").exists()
    dead = "SELECT kind, reason, count(*) FROM delta_scan('headrace-data/jobs') WHERE outcome = 'dead' GROUP BY ALL"
    return [
        *([] if found else [(f"export PATH={shlex.quote(str(programs))}:$PATH", "")]),
        (f"cd {shlex.quote(str(folder))}", "where commands find store and tables"),
        ("headrace jobs show site/1 --tenant acme -q web", "everything about a job"),
        ("headrace dead list --tenant acme -q mail", "dead letters"),
        ("headrace dead replay --tenant acme -q mail --all", "run them again"),
        ("headrace worker headrace.cli.demo.app:app --tenant acme -q mail --until-idle", "with a worker"),
        ("headrace pipeline history --once", "add the new events"),
        ("headrace pipeline audit", "and compare them with the store"),
        (f'duckdb -c "{dead}"', ""),
    ]


def _timeline(rows: Sequence[Row]) -> Table:
    """A row of bars for each number, one bar a second."""
    lines: dict[str, list[int]] = {"sent": [], "done": [], "failed": [], "open": []}
    open_jobs, before = 0, None
    for row in rows:
        quiet = 0 if before is None else int((row["window_start"] - before).total_seconds()) - 1
        before = row["window_start"]
        for name in lines:
            lines[name] += [open_jobs if name == "open" else 0] * quiet
        open_jobs += row["opened"] - row["closed"]
        lines["sent"].append(row["opened"])
        lines["done"].append(row["done"])
        lines["failed"].append(row["retried"] + row["stalled"] + row["dead"])
        lines["open"].append(open_jobs)
    grid = _grid("", "", "most", numbers=0)
    styles = {"sent": "cyan", "done": "green", "failed": "red", "open": "yellow"}
    for name, values in lines.items():
        per = "" if name == "open" else " /s"
        grid.add_row(name, Text(bars(values), styles[name]), f"{max(values, default=0):,}{per}")
    return grid


def bars(values: Sequence[int]) -> str:
    """A bar for each number; the largest is full, and only zero is invisible."""
    top = max(values, default=0)
    return "".join(BARS[0 if not value else max(1, round(value / top * 8))] for value in values)


def _grid(*columns: str, numbers: int | None = None) -> Table:
    """A table with words in the first column and numbers in the others; with `numbers`, that many numbers first."""
    grid = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for position, name in enumerate(columns):
        is_number = position > 0 if numbers is None else position < numbers
        grid.add_column(name, justify="right" if is_number else "left", no_wrap=is_number or position == 0)
    return grid


def _print(console: Console, title: str, grid: Table) -> None:
    console.print(f"\n[bold]{title}[/]")
    console.print(grid)


def _number(count: int) -> str:
    return f"{count:,}" if count else "[dim]·[/]"


def _time(ms: int | None) -> str:
    return "[dim]·[/]" if ms is None else duration_text(ms)
