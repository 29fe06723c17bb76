"""Numbers and instants for people: thousands apart, two or three digits, units, UTC."""

from headrace.model.times import duration_text, instant_text

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
