"""Prints the output of a command: tables and sentences for people, one JSON document for programs."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.cli.table import FOLDED, GAPS, TableLayout, fit
from headrace.model.errors import BadConfig
from headrace.model.redact import redact

if TYPE_CHECKING:
    from rich.console import Console

Advance = Callable[[int], None]
PIPE_WIDTH = 10_000
"""Without a terminal nothing is folded or cut: a program may read it."""


class Output:
    """Prints the output of one command. `--json` prints one document to stdout and nothing else there; hints, questions
    and progress go to stderr, progress only to a terminal."""

    def __init__(self, *, json: bool) -> None:
        self.json = json

    def document(self, value: object) -> None:
        """Print a JSON document of structs, dicts and lists; nothing without `--json`."""
        if self.json:
            sys.stdout.write(msgspec.json.encode(value).decode() + "\n")

    def say(self, text: str) -> None:
        """Print a sentence; nothing with `--json`."""
        if not self.json:
            self._console().print(printable(redact(text)), markup=False, highlight=False, soft_wrap=True)

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str, spare: Sequence[str] = ()
    ) -> None:
        """Print a table, or the sentence `empty`; nothing with `--json`. Columns with a name that ends in `#` hold
        numbers (the sign is not shown), aligned right; None is shown as a dash. In a terminal each row is one line:
        texts are cut, then columns of `spare` left out in their order."""
        if self.json:
            return
        if not rows:
            self.say(empty)
            return
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        cells = [["–" if cell is None else _cell(cell) for cell in row] for row in rows]
        console = self._console()
        layout = fit(columns, cells, console.width, spare) if sys.stdout.isatty() else None
        if layout is None:  # no cut: a program reads it, or the terminal breaks the lines
            layout = TableLayout(list(range(len(columns))), {}, GAPS[0], [])
            console = Console(width=max(PIPE_WIDTH, *(sum(map(len, row)) + len(row) * GAPS[0] for row in cells)))
        gap = layout.gap - 1  # the box puts one between two columns
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, gap // 2 + gap % 2, 0, gap // 2))
        for index in layout.shown:
            name = columns[index].removesuffix("#")
            table.add_column(
                name,
                justify="right" if name != columns[index] else "left",
                no_wrap=name not in FOLDED,
                overflow="ellipsis" if index in layout.widths else "fold",
                width=layout.widths.get(index),
            )
        for row in cells:
            table.add_row(*(Text(row[index]) for index in layout.shown))
        console.print(table)
        if layout.left_out:
            self.hint(f"left out, because the terminal is too narrow: {', '.join(layout.left_out)}; --json has all")

    def hint(self, text: str) -> None:
        """Print a sentence on stderr; nothing with `--json`."""
        if not self.json:
            print(printable(redact(text)), file=sys.stderr)

    def confirm(self, question: str, *, yes: bool) -> None:
        """Ask before an irreversible action; ends the command unless the answer is yes."""
        if yes:
            return
        if self.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise BadConfig(f"{question} There is no terminal to answer in; add --yes to confirm")
        import typer

        if not typer.confirm(question, err=True):
            self.hint("nothing was changed")
            raise typer.Abort

    @contextmanager
    def progress(self, what: str, total: int | None = None) -> Iterator[Advance]:
        """Show the progress of long work; the block calls the function it gets with the number of items done."""
        if self.json or not sys.stderr.isatty():
            yield _ignore
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task(what, total=total)
            yield lambda count: progress.advance(task, count)

    def _console(self) -> "Console":
        from rich.console import Console

        return Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else printable(redact(str(value)))


def printable(text: str) -> str:
    """A text without control characters for a terminal: unprintable characters become escapes."""
    return "".join(each if each.isprintable() or each == "\n" else ascii(each)[1:-1] for each in text)


def _ignore(count: int) -> None:
    """No progress is shown."""


def one_line(text: str) -> str:
    """A text as one printable line."""
    return printable(text).replace("\n", "\\n")


def counted(count: int, noun: str) -> str:
    """A number with its noun: 1 job, 2,500 jobs."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
