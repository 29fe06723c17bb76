"""Parses and formats durations ("30s") and instants, in whole milliseconds."""

import math
import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any

from headrace.model.errors import Refused
from headrace.model.limits import DURATION_MS_MAX
from headrace.model.validate import bounded_repr, check_time

Duration = str | int | float | timedelta
"""How long: "250ms", "30s", "5m", "1.5h", "2d", a number of seconds, or a timedelta."""
Instant = datetime | int
"""When: a datetime that knows its zone, or milliseconds since 1970 UTC."""

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WRITTEN = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?) ?(ms|s|m|h|d)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def duration_ms(what: str, value: Duration) -> int:
    """A duration as milliseconds; refuses values that are negative, longer than a year, or not a duration.

    Texts have a unit: "250ms", "30s", "5m", "1.5h", "2d". A bare number is seconds. A positive duration is at least one
    millisecond, so that a tiny time-out does not become zero.
    """
    if type(value) is str:
        ms = _parsed_ms(what, value)
    elif type(value) is int or type(value) is float:
        ms = value * 1_000.0 if type(value) is float else value * 1_000
    elif isinstance(value, timedelta):
        ms = value / _MS
    else:
        raise _no_duration(what, value)
    if not 0 <= ms <= DURATION_MS_MAX:  # also true for NaN
        raise _out_of_bounds(what, value, ms)
    return math.ceil(ms) if ms < 1 else round(ms)


def instant_ms(what: str, value: Instant) -> int:
    """An instant as milliseconds since 1970 UTC; refuses a datetime without a zone, and years beyond 9999."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise Refused(
                "bad_" + what,
                f"{what} {value.isoformat()} has no time zone; add one, such as"
                " datetime.now(UTC) or .replace(tzinfo=ZoneInfo('Europe/Berlin'))",
            )
        ms = (value - _EPOCH) // _MS
    elif type(value) is int:
        ms = value
    else:
        raise Refused(
            "bad_" + what,
            f"{what} must be a datetime with a zone or whole milliseconds since 1970; found"
            f" {type(value).__name__} {bounded_repr(value)}",
        )
    check_time(what, ms)
    return ms


def read_instant_ms(what: str, text: str) -> int:
    """Parse an instant: ISO 8601 with a zone, or milliseconds since 1970 UTC."""
    if text.isascii() and text.isdigit():
        return instant_ms(what, int(text))
    try:
        return instant_ms(what, datetime.fromisoformat(text))
    except ValueError:
        raise Refused(
            "bad_" + what,
            f"{what} {bounded_repr(text)} is not a valid time; write it with its zone, as in 2030-01-31T12:00:00Z,"
            " or as milliseconds since 1970",
        ) from None


def read_past_ms(what: str, text: str, now_ms: int) -> int:
    """An instant of the past as people write it: how long ago ("2h"), ISO 8601 with a zone, or milliseconds."""
    if text.isascii() and text.isdigit():
        return read_instant_ms(what, text)
    try:
        return now_ms - duration_ms(what, text)
    except Refused:
        pass
    try:
        return read_instant_ms(what, text)
    except Refused:
        raise Refused(
            "bad_" + what,
            f"{what} {bounded_repr(text)} is not a valid time; use 30s, 2h or 7d for how long ago, or an instant such"
            " as 2030-01-31T12:00:00Z",
        ) from None


def instant_text(ms: int) -> str:
    """An instant for people and programs: ISO 8601, UTC, with milliseconds."""
    return f"{(_EPOCH + ms * _MS).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def duration_text(ms: int) -> str:
    """A duration for people, in its two largest units: 850 ms, 12.3 s, 5 m 3 s, 2 h 10 m, 3 d 4 h."""
    if ms < 0:
        return f"-{duration_text(-ms)}"
    if ms < 60_000:
        return f"{ms} ms" if ms < 1_000 else f"{ms / 1_000:.1f} s"
    for unit, below in (("d", "h"), ("h", "m"), ("m", "s")):
        whole, rest = divmod(ms, _UNITS_MS[unit])
        if whole:
            return f"{whole} {unit} {rest // _UNITS_MS[below]} {below}"
    return "0 ms"


def ago_text(at_ms: int, now_ms: int) -> str:
    """How long ago an instant was, for people; never negative."""
    return f"{duration_text(max(now_ms - at_ms, 0))} ago"


@lru_cache(maxsize=1_024)  # the same few texts come with every job
def _parsed_ms(what: str, text: str) -> float:
    found = _WRITTEN.fullmatch(text)
    if found is None:
        raise _no_duration(what, text)
    return float(found[1]) * _UNITS_MS[found[2]]


def _no_duration(what: str, value: object) -> Refused:
    return Refused(
        "bad_" + what,
        f"{what} {bounded_repr(value)} is not a valid duration; use a number and a unit, such as 250ms, 30s, 5m, 1.5h"
        " or 2d, or a number of seconds",
    )


def _out_of_bounds(what: str, value: object, ms: float) -> Refused:
    days_max = DURATION_MS_MAX // _UNITS_MS["d"]
    wrong = "cannot be negative" if ms < 0 else f"must be at most {days_max} days"
    return Refused("bad_" + what, f"{what} {wrong}; found {bounded_repr(value)}")


def iso_text(value: Any) -> Any:
    """An instant (UTC, microseconds) or a day as ISO 8601 text, which compares as it does; other values as they are."""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC) if value.tzinfo else value:%Y-%m-%dT%H:%M:%S.%fZ}"
    return value.isoformat() if isinstance(value, date) else value
