"""Ranks: short texts that sort like the items of a feed; between any two there is space for another.

A rank is a row of numbers, each written with a fixed number of signs that sort like the numbers: the first has 48 bits,
the others 24. At the ends the first number goes on in steps; in between, a rank without room gets a further number. New
ranks keep a step away from the neighbour that came last, so items inserted one after the other at the same position
do not halve the room each time. No rank ends with a zero: below that there is no room.
"""

from collections.abc import Iterator

SIGNS = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
FIRST_CHARS, NEXT_CHARS = 8, 4
STEP = 64
_VALUES = {sign: value for value, sign in enumerate(SIGNS)}


def between(low: str | None, high: str | None) -> str:
    """A rank between two others; None means no bound on that side."""
    if high is None and low is not None and len(low) == FIRST_CHARS and low[-2] != SIGNS[-1]:
        return low[:-2] + SIGNS[_VALUES[low[-2]] + 1] + low[-1]  # a step of 64 on: most items come last
    (rank,) = spread(low, high, 1)
    return rank


def spread(low: str | None, high: str | None, count: int) -> list[str]:
    """`count` ranks between two others, in order and spread evenly."""
    below = None if low is None else list(_read(low))
    above = None if high is None else list(_read(high))
    path: list[int] = []
    while True:
        level = len(path)
        end = 64 ** (NEXT_CHARS if level else FIRST_CHARS)
        under = below[level] if below is not None and level < len(below) else None
        over = above[level] if above is not None and level < len(above) else None
        found = _places(under, over, end, count)
        if found:
            prefix = "".join(map(_write, path, _widths(level)))
            return [prefix + _write(each, NEXT_CHARS if level else FIRST_CHARS) for each in found]
        # No space here: continue one level deeper, below the neighbour at this place.
        if under is not None:
            path.append(under)
            if under != over:
                above = None
        else:
            path.append(0)
            below = None
            if over != 0:
                above = None


def _places(under: int | None, over: int | None, end: int, count: int) -> list[int]:
    """Free numbers of one level between two, `count` of them, or none."""
    least, most = under or 0, end if over is None else over
    if most - least <= count:
        return []
    if count > 1 or (under is None) == (over is None):
        step = (most - least) // (count + 1)
        return [least + step * (index + 1) for index in range(count)]
    if over is None:
        return [least + min(STEP, (end - least) // 2)]
    return [over - min(STEP, over // 2)]


def _widths(level: int) -> Iterator[int]:
    yield FIRST_CHARS
    for _ in range(level):
        yield NEXT_CHARS


def _read(rank: str) -> Iterator[int]:
    start, width = 0, FIRST_CHARS
    while start < len(rank):
        number = 0
        for sign in rank[start : start + width]:
            number = number * 64 + _VALUES[sign]
        yield number
        start, width = start + width, NEXT_CHARS


def _write(number: int, width: int) -> str:
    signs = ""
    for _ in range(width):
        number, rest = divmod(number, 64)
        signs = SIGNS[rest] + signs
    return signs
