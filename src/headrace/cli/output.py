"""Prints the output of a command: tables and sentences for people, one JSON document for programs."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.redact import redact

if TYPE_CHECKING:
    from rich.console import Console

Advance = Callable[[int], None]
PIPE_WIDTH = 10_000
"""The width without a terminal: nothing is folded or cut, since a program may read it."""
FOLDED = ("found", "the journal says", "the store says", "what to do", "what")
"""Columns of sentences, which may be folded to several lines."""
IDS = ("id", "name")
"""Columns of ids, which may be cut to a unique beginning, since commands take the beginning of an id."""
CUT = (*IDS, "item", "error", "why", "queues", "queue", "tenant", "feed", "worker", "kind", "tag")
"""Columns that may be cut; a part of a number or a time would be wrong."""
FOLDED_WIDTH = 16
CUT_WIDTH = 8
ID_WIDTH = 20
"""Of a UUID: its time and some random digits."""
GAPS = (3, 2)
EMPTY = ("–", "", "0", "0 ms")


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
        if layout is None:  # uncut: for a program, or for a terminal that wraps lines
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
            self.hint(f"columns left out of this narrow terminal: {', '.join(layout.left_out)}; --json shows all")

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


class TableLayout(Struct, frozen=True):
    """The shown columns, the widths of the cut ones, and the gap between columns."""

    shown: list[int]
    widths: dict[int, int]
    gap: int
    left_out: list[str]
    """Columns with content that are not shown."""


def fit(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int, spare: Sequence[str]) -> TableLayout | None:
    """The layout of a table in a terminal of that width, None where it cannot be narrow enough.

    `spare` are the columns that may be left out, the least needed first. Widths are those of `rich`, which knows wide
    characters.
    """
    from rich.cells import cell_len

    names = [column.removesuffix("#") for column in columns]
    widest = [max(map(cell_len, column)) for column in zip(names, *rows, strict=True)]
    needed = [min(each, FOLDED_WIDTH) if name in FOLDED else each for name, each in zip(names, widest, strict=True)]
    shown = list(range(len(names)))
    for gap in GAPS:
        if _sum(needed, shown, gap) <= width:
            return TableLayout(shown, {}, gap, [])
    texts = [[row[index] for row in rows] for index in shown]
    droppable = [names.index(name) for name in spare if name in names]
    empty = [index for index in droppable if all(text in EMPTY for text in texts[index])]
    shown = [index for index in shown if index not in empty]
    left_out: list[str] = []
    for index in (None, *(index for index in droppable if index not in empty)):
        if index is not None:
            shown.remove(index)
            left_out.append(names[index])
        widths = _cut(names, needed, texts, shown, width - gap * (len(shown) - 1))
        if widths is not None:
            return TableLayout(shown, widths, gap, left_out)
    return None


def _sum(needed: Sequence[int], shown: Sequence[int], gap: int) -> int:
    return sum(needed[index] for index in shown) + gap * (len(shown) - 1)


def _cut(
    names: Sequence[str], needed: Sequence[int], texts: Sequence[Sequence[str]], shown: Sequence[int], width: int
) -> dict[int, int] | None:
    """The widths of the cut columns, the widest cut first; None if that is not enough."""
    floors = {index: _floor(names[index], needed[index], texts[index]) for index in shown if names[index] in CUT}
    widths = {index: needed[index] for index in floors}
    over = sum(needed[index] for index in shown) - width
    while over > 0:
        loose = [index for index in widths if widths[index] > floors[index]]
        if not loose:
            return None
        widths[max(loose, key=widths.__getitem__)] -= 1
        over -= 1
    return widths


def _floor(name: str, natural: int, texts: Sequence[str]) -> int:
    """The least width of a column: cut ids must stay different, and the header readable."""
    if name not in IDS:
        return min(natural, max(CUT_WIDTH, len(name)))
    shared = (_shared(*pair) for pair in pairwise(sorted(set(texts))))
    return min(natural, max(ID_WIDTH, 2 + max(shared, default=0)))


def _shared(one: str, other: str) -> int:
    """The number of characters that both begin with."""
    return sum(1 for _ in takewhile(lambda signs: signs[0] == signs[1], zip(one, other, strict=False)))
