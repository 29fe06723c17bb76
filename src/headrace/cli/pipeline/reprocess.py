"""Options of replay and backfill, and the confirmation by counts that both ask for."""

from collections.abc import Callable
from typing import Annotated, Protocol, TypeVar

import typer

from headrace.cli.output import Output
from headrace.cli.pipeline.progress import ProgressLine

Delay = Annotated[str, typer.Option("--delay", metavar="DURATION", help="Delay until the jobs are due: 10m, 2h.")]
Spread = Annotated[
    str, typer.Option("--spread", metavar="DURATION", help="Time over which the jobs are due evenly: 10m, 2h.")
]
Most = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Number to take at most, the oldest first.")]
GROUPS_SHOWN = 20
"""Groups in the table that a user decides by, the largest first."""


class ReprocessReport(Protocol):
    """What was written, or would be."""

    def sentence(self) -> str:
        """The counts in one sentence."""


R = TypeVar("R", bound=ReprocessReport)


def confirm_counts(
    output: Output,
    line: ProgressLine,
    *,
    count: Callable[[], R],
    size: Callable[[R], int],
    show: Callable[[R], None],
    write: Callable[[R | None], R],
    dry_run: bool,
    yes: bool,
) -> R:
    """Count, show the counts, ask, and then write; with `yes`, write at once. `write` gets the counts, if any.

    A dry run ends with the counts, and so does one that finds nothing (`size`). Without a terminal to ask in it exits
    with code 2 and says which option to add.
    """
    if yes and not dry_run:
        report = write(None)
        with line.aside():
            show(report)
        return report
    counts = count()
    with line.aside():
        show(counts)
        if dry_run or not size(counts):
            return counts
        try:
            output.confirm(f"{counts.sentence()}. Do it?", yes=False)
        except Exception:
            output.document(counts)  # no other one follows
            raise
    return write(counts)
