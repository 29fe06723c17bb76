"""Fits the columns of a table into a terminal: narrower gaps first, then cut texts, then fewer columns."""

from collections.abc import Sequence
from itertools import pairwise, takewhile

from msgspec import Struct

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
