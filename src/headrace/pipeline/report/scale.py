"""Axes: which round values to mark, and where on a plot a value lies."""

import math
from collections.abc import Callable

from msgspec import Struct

from headrace.pipeline.report.texts import clock, short, tick_ms

TICKS = 4
"""Steps between the lines of a plot: enough to read a value off, few enough to see the data."""
_STEPS_MS: tuple[int, ...] = (
    *(base * power for power in (1, 10, 100, 1_000) for base in (1, 2, 5)),
    *(1_000 * seconds for seconds in (10, 15, 30)),
    *(60_000 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3_600_000 * hours for hours in (1, 2, 3, 6, 12)),
    *(86_400_000 * days for days in (1, 2, 5, 7, 14, 28, 91, 182, 365, 3_650)),
)
"""Durations that people find round."""
_LADDER_MS = (1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 864_000_000, 8_640_000_000)
"""Marks of a logarithmic axis of durations."""
_LADDER_MARKS_MIN = 3
"""With fewer marks of the ladder in its range, a logarithmic axis takes those between as well."""
HEADROOM = 1.04
"""Of the largest value, so that its stroke is whole."""
_LOG_FROM = 40
"""A largest value of so many times the typical one is drawn logarithmically: the typical one would lie on the floor."""


class Tick(Struct, frozen=True):
    """A mark on an axis: where, from 0 to 1, and what it says."""

    place: float
    text: str


class Scale(Struct, frozen=True):
    """The vertical axis of a plot: `place` turns a value into a height from 0 (bottom) to 1 (top)."""

    place: Callable[[float], float]
    ticks: list[Tick]
    is_log: bool = False


def counts(top: float) -> Scale:
    """An axis from 0 to just above `top` with whole, round marks."""
    rough = max(top, 1) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = max(next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999), 1)
    if step == 2.5:
        step = 5
    return _linear(top, step, short)


def durations(values: list[int]) -> Scale:
    """An axis for durations in ms: from 0, or logarithmic where few are so long that the others would not be seen."""
    known = sorted(value for value in values if value > 0)
    top = known[-1] if known else 1
    if known and top > _LOG_FROM * max(known[len(known) // 2], 1):
        return _logarithmic(known[0] / HEADROOM, top)
    step = next((step for step in _STEPS_MS if step * TICKS >= top), _STEPS_MS[-1])
    return _linear(top, step, tick_ms)


def bucket_ms(start_ms: int, end_ms: int, window_ms: int, buckets_max: int) -> int:
    """The shortest round multiple of a window with which a span has at most so many buckets."""
    for step in _STEPS_MS:
        if step % window_ms == 0 and _buckets(start_ms, end_ms, step) <= buckets_max:
            return step
    step = window_ms
    while _buckets(start_ms, end_ms, step) > buckets_max:
        step *= 2
    return step


def instants(start_ms: int, end_ms: int, marks_max: int) -> list[Tick]:
    """Round instants in a span, at most so many; places run from 0 to 1."""
    span = end_ms - start_ms
    step = next((step for step in _STEPS_MS if span / step < marks_max), _STEPS_MS[-1])
    first = -(-start_ms // step) * step
    return [Tick((at - start_ms) / span, clock(at, step)) for at in range(first, end_ms, step)]


def _buckets(start_ms: int, end_ms: int, step: int) -> int:
    return -(-end_ms // step) - start_ms // step


def _linear(top: float, step: float, text: Callable[[float], str]) -> Scale:
    steps = max(math.floor(top / step + 1e-9), 1)
    height = max(top, steps * step) * HEADROOM
    marks = [number * step for number in range(steps + 1)]
    return Scale(lambda value: value / height, [Tick(mark / height, text(mark) if mark else "0") for mark in marks])


def _logarithmic(low: float, high: int) -> Scale:
    span = math.log(high / low) * HEADROOM
    marks = [mark for mark in _LADDER_MS if low <= mark <= high]
    if len(marks) < _LADDER_MARKS_MIN:
        marks = [mark for mark in _STEPS_MS if low <= mark <= high]
    thin = marks[:: 1 + len(marks) // 7]
    return Scale(
        lambda value: max(math.log(max(value, low) / low), 0) / span,
        [Tick(math.log(mark / low) / span, tick_ms(mark)) for mark in thin],
        is_log=True,
    )
