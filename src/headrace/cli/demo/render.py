"""Writes the demo's output: its progress, tables of Spark's results, and what to try next."""

import sys
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from shutil import which
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli.demo.pipeline import DemoReport, Row
from headrace.cli.demo.scenario import DemoView, Played
from headrace.cli.output import counted
from headrace.model.times import duration_text

if TYPE_CHECKING:
    from headrace.pipeline.audit.findings import AuditReport

BARS = " ▁▂▃▄▅▆▇█"
FINDINGS_SHOWN = 5


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
        "history": f"{demo.events:,} events in {demo.files:,} Parquet files by day and queue",
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
    """Print the result of the audit, the place of the files, and what to try next."""
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
        *([] if found else [(f"export PATH={quote(str(programs))}:$PATH", "")]),
        (f"cd {quote(str(folder))}", "where commands find store and tables"),
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
