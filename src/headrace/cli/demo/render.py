"""What the demo shows: how it goes, tables of what Spark made of it, and what to try next."""

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
from headrace.cli.demo.scenario import Played, StoryView
from headrace.model.times import duration_text

if TYPE_CHECKING:
    from headrace.pipeline.audit.findings import AuditReport

BARS = " ▁▂▃▄▅▆▇█"
FINDINGS_SHOWN = 5


def look_text(look: StoryView) -> str:
    """How the work goes, in a line."""
    counts = look.counts
    told = f"{look.seconds:4.1f} s   {look.sent:,} sent   {counts.done:,} done   {counts.active:,} running"
    told += f"   {counts.waiting - counts.later:,} due   {counts.dead:,} dead"
    return f"{told}   [red]{look.killed.worker} was killed[/]" if look.killed else told


def played_text(played: Played) -> str:
    """What was played, in two lines."""
    jobs = ", ".join(played.killed.jobs)
    return (
        f"   [green]✓[/] {played.sent:,} jobs sent and run [dim]{played.seconds:.1f} s[/]\n"
        f"   [red]✗[/] {played.killed.worker} (process {played.killed.process}) was killed with {jobs} in its hands"
    )


def step_text(name: str, told: DemoReport) -> str:
    """What a step has made."""
    audit = told.audit
    made = {
        "spark": "is up",
        "history": f"{told.events:,} events in {told.files:,} Parquet files by day and queue",
        "jobs": f"{told.jobs:,} lives of jobs, {told.attempts:,} attempts",
        "stats": f"{told.windows:,} windows of a second",
        "errors": f"{told.fingerprints:,} fingerprints",
        "usage": f"{len(told.usage):,} tenants",
        "audit": "" if audit is None else f"{audit.jobs:,} jobs compared with {audit.events:,} events",
        "map": f"{sum(told.outcomes.values()):,} rows through jobs and back: "
        + ", ".join(f"{count:,} {outcome}" for outcome, count in told.outcomes.items()),
        "report": "" if told.report is None else f"{told.report.stat().st_size / 1_024:,.0f} KiB of HTML",
    }
    return f"   [green]✓[/] {name:<9}{made[name]} [dim]{told.seconds[name]:.1f} s[/]"


def show(console: Console, played: Played, told: DemoReport) -> None:
    """Print the tables."""
    _print(console, "Second by second", _timeline(told.timeline))
    kinds = _grid("kind", "jobs", "done", "dead", "cancelled", "open", "wait p95", "run p50", "run p95")
    for row in told.kinds:
        numbers = (row[name] for name in ("jobs", "done", "dead", "cancelled", "open"))
        times = (_time(row[name]) for name in ("wait_p95", "run_p50", "run_p95"))
        kinds.add_row(row["kind"], *map(_number, numbers), *times)
    _print(console, "What became of the jobs", kinds)

    errors = _grid("failures", "deaths", "tenant", "error", numbers=2)
    for row in told.errors:
        template = Text.assemble((f"{row['error_class']}: ", "bold"), row["template"])
        errors.add_row(_number(row["failures"]), _number(row["deaths"]), row["tenant"], template)
    _print(console, "Why they failed, numbers and addresses folded", errors)

    used = _grid("tenant", "enqueued", "done", "dead", "deliveries", "retried", "stalled", "ran")
    for row in told.usage:
        names = ("enqueued", "done", "dead", "deliveries", "retried", "stalled")
        used.add_row(row["tenant"], *(_number(row[name]) for name in names), _time(row["run_ms"]))
    _print(console, "What each tenant used", used)

    life = _grid("after", "event", "worker", numbers=1)
    for row in told.life:
        after = (row["happened_at"] - told.life[0]["happened_at"]).total_seconds()
        style = {"stalled": "red", "done": "green"}.get(row["event"], "")
        life.add_row(f"{after:.1f} s", Text(row["event"], style), row["worker"] or "")
    _print(console, f"The life of {played.killed.jobs[0]}, whose worker was killed", life)

    answers = _grid("order", "address", "outcome", "lat", "lon", "error", numbers=1)
    for row in told.answers:
        error = "" if row["error_class"] is None else f"{row['error_class']}: {row['error_message']}"
        place = ("" if row[name] is None else f"{row[name]:.4f}" for name in ("lat", "lon"))
        style = "green" if row["outcome"] == "done" else "red"
        answers.add_row(_number(row["order"]), row["address"], Text(row["outcome"], style), *place, Text(error))
    _print(console, "Rows that were jobs for a moment: some of the results, failures among them", answers)


def close(console: Console, folder: Path, told: DemoReport, audit: "AuditReport", seconds: float) -> None:
    """Say whether everything adds up, where the files are, and what to try next."""
    if audit.ok:
        console.print(f"[bold green]The audit found nothing:[/] store and journal agree on all {audit.jobs:,} jobs.")
    else:
        found = f"{len(audit.findings):,} things do" if len(audit.findings) != 1 else "one thing does"
        console.print(f"[bold red]The audit found that {found} not add up:[/]")
        for finding in audit.findings[:FINDINGS_SHOWN]:
            said = f"  {finding.what} {finding.id or ''}: {finding.journal}, but {finding.store}; {finding.hint}"
            console.print(said, markup=False)
    if told.report is not None:
        console.print(f"\n[bold]Look at it:[/] {told.report.as_uri()}")
    console.print(f"[dim]It took {seconds:.0f} s. Everything is in {folder}; delete it when you are done.[/]")
    console.print("\n[bold]Try next:[/]")
    for command, why in _next(folder):
        console.print(
            Text.assemble(f"  {command:<76}" if why else f"  {command}", (f"  # {why}" if why else "", "dim"))
        )


def _next(folder: Path) -> list[tuple[str, str]]:
    programs = Path(sys.executable).parent
    found = which("headrace") is not None or not (programs / "headrace").exists()
    dead = "SELECT kind, reason, count(*) FROM 'headrace-data/jobs/*.parquet' WHERE outcome = 'dead' GROUP BY ALL"
    return [
        *([] if found else [(f"export PATH={quote(str(programs))}:$PATH", "")]),
        (f"cd {quote(str(folder))}", "here the commands find store and tables"),
        ("headrace jobs show site/1 --tenant acme -q web", "all of a job"),
        ("headrace dead list --tenant acme -q mail", "dead letters"),
        ("headrace dead replay --tenant acme -q mail --all", "let them live again"),
        ("headrace worker headrace.cli.demo.app:app --tenant acme -q mail --until-idle", "and run them"),
        ("headrace pipeline history --once", "add what happened"),
        ("headrace pipeline audit", "and see that it adds up"),
        (f'duckdb -c "{dead}"', ""),
    ]


def _timeline(rows: Sequence[Row]) -> Table:
    """A row of bars for each number, a bar a second."""
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
    """A bar for each number; the largest is full, and what is not zero is seen."""
    top = max(values, default=0)
    return "".join(BARS[0 if not value else max(1, round(value / top * 8))] for value in values)


def _grid(*columns: str, numbers: int | None = None) -> Table:
    """A table whose first column holds words and the others numbers; or, with `numbers`, the first so many numbers."""
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
