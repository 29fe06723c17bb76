"""What the commands that do work again share: their options, and that they count, show and ask before they do it."""

from collections.abc import Callable
from typing import Annotated, Protocol, TypeVar

import typer

from headrace.cli.output import Output
from headrace.cli.pipeline.progress import ProgressLine

Delay = Annotated[str, typer.Option("--delay", metavar="DURATION", help="Let them be due after this time: 10m, 2h.")]
Spread = Annotated[
    str, typer.Option("--spread", metavar="DURATION", help="Let them be due evenly over this time: 10m, 2h.")
]
Most = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="How many at most, the oldest first.")]
GROUPS_SHOWN = 20
"""Groups that people are shown: what they decide by, the largest first."""


class ReprocessAction(Protocol):
    """What doing something came to, or would come to."""

    def sentence(self) -> str:
        """The counts for people."""


D = TypeVar("D", bound=ReprocessAction)


def counted_first(
    output: Output,
    line: ProgressLine,
    *,
    count: Callable[[], D],
    size: Callable[[D], int],
    show: Callable[[D], None],
    do: Callable[[D | None], D],
    dry_run: bool,
    yes: bool,
) -> D:
    """What it came to. Unless `yes` was said before, it is counted, shown and asked for; `do` gets what was counted.

    A dry run, and one that finds nothing (`size`), ends with what was counted. Where nobody can answer it ends so too,
    with exit code 2 and what to add.
    """
    if yes and not dry_run:
        done = do(None)
        with line.aside():
            show(done)
        return done
    would = count()
    with line.aside():
        show(would)
        if dry_run or not size(would):
            return would
        try:
            output.confirm(f"{would.sentence()}. Do it?", yes=False)
        except Exception:
            output.document(would)  # no other one follows
            raise
    return do(would)
