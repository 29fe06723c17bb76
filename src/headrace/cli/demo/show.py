"""What the demo shows: tables of what Spark read from the journal."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from headrace.cli.demo.story import SECOND_MS
from headrace.model.event import EVENTS


class Check(Struct, frozen=True):
    """A number that Spark took from the journal, beside the store's own."""

    what: str
    journal: int
    store: int


def show(console: Console, summary: Any, checks: Sequence[Check]) -> None:
    """Print the tables."""
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


def close(console: Console, url: str, table: str, seconds: float, checks: Sequence[Check]) -> None:
    """Say whether the journal tells the truth, where the files are, and what to try next."""
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
        "from headrace.pipeline import session",
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
    return f"{ms} ms" if ms < SECOND_MS else f"{ms / SECOND_MS:.1f} s"


def _compared(check: Check) -> str:
    if check.journal == check.store:
        return f"{check.journal:,} [green]✓[/]"
    return f"[red]{check.journal:,} ≠ {check.store:,}[/]"


def _by_way(row: dict[str, Any]) -> int:
    """Events in the order in which a job meets them."""
    return EVENTS.index(row["event"])
