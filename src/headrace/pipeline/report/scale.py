"""Scales of axes, and numbers and instants as people read them."""

import math
from collections.abc import Callable

from msgspec import Struct

from headrace.model.times import duration_text, instant_text

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


_MINUTE_MS, _DAY_MS = 60_000, 86_400_000
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
NONE = "–"
"""Where there is no number."""


def exact(number: float) -> str:
    """A number with its thousands apart: 1,234,567."""
    return f"{number:,}" if isinstance(number, int) else f"{number:,.3f}".rstrip("0").rstrip(".")


def short(number: float) -> str:
    """A number in three digits or so: 950, 1.23k, 45.6M; for axes and tiles."""
    size = abs(number)
    for unit, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= factor * 0.9995 and size >= 10_000:
            return f"{_digits(number / factor)}{unit}"
    return exact(round(number)) if size >= 100 or float(number).is_integer() else _digits(number)


def percent(share: float | None) -> str:
    """A share of 1 as a percentage that never rounds something to nothing, or nearly all to all."""
    if share is None:
        return NONE
    if 0 < share < 0.0001:
        return "<0.01%"
    if 0.9999 < share < 1:
        return ">99.99%"
    digits = 2 if share < 0.01 or 0.99 < share < 1 else 1
    text = f"{share * 100:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.')}%"


def queues_text(count: int) -> str:
    """So many queues: 1 queue, 2,000 queues."""
    return f"{exact(count)} queue{'' if count == 1 else 's'}"


def milliseconds(ms: int | None) -> str:
    """A duration: 0 ms, 850 ms, 12.3 s, 5 m 3 s."""
    return NONE if ms is None else duration_text(ms)


def tick_ms(ms: float) -> str:
    """A duration at an axis, which is a round one: 500 ms, 2.5 s, 10 s, 5 m, 2 h, 3 d."""
    for unit, size in (("d", _DAY_MS), ("h", 3_600_000), ("m", _MINUTE_MS), ("s", 1_000)):
        if ms >= size:
            return f"{_digits(ms / size)} {unit}"
    return f"{_digits(ms)} ms"


def every(ms: int) -> str:
    """The length of a bucket: each second, every 15 minutes, every 6 hours, each day, every 50 ms."""
    for unit, size in (("day", _DAY_MS), ("hour", 3_600_000), ("minute", _MINUTE_MS), ("second", 1_000)):
        if ms % size == 0:
            return f"each {unit}" if ms == size else f"every {exact(ms // size)} {unit}s"
    return f"every {exact(ms)} ms"


def bytes_text(size: int) -> str:
    """Bytes in three digits: 512 B, 1.5 KB, 20 MB."""
    if size < 1_000:
        return f"{size} B"
    for unit, factor in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size >= factor * 0.9995:
            return f"{_digits(size / factor)} {unit}"
    return f"{size} B"


def instant(ms: int) -> str:
    """An instant to the second: 2026-11-16 15:04:05; with its milliseconds if it has any."""
    text = instant_text(ms)[:-1].replace("T", " ")
    return text.removesuffix(".000")


def day(ms: int) -> str:
    """A day at an axis: 16 Nov."""
    text = instant_text(ms)
    return f"{int(text[8:10])} {_MONTHS[int(text[5:7]) - 1]}"


def clock(ms: int, step_ms: int) -> str:
    """An instant at an axis whose marks are `step_ms` apart: 15:04:05, 15:04 or 16 Nov; midnight shows its day."""
    if step_ms >= _DAY_MS or ms % _DAY_MS == 0:
        return day(ms)
    text = instant_text(ms)[11:23]
    if step_ms % 1_000:
        return text.rstrip("0").rstrip(".")
    return text[:5] if step_ms % _MINUTE_MS == 0 else text[:8]


def _digits(number: float) -> str:
    size = abs(number)
    digits = 0 if size >= 99.95 else 1 if size >= 9.995 else 2
    text = f"{number:,.{digits}f}"
    if size and float(text.replace(",", "")) == 0:
        return "<0.01"
    return text.rstrip("0").rstrip(".") if "." in text else text
