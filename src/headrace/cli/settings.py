"""Settings as people write and read them: `timeout=30s`, `paused=true`, `items_max=5000`."""

import re
from collections.abc import Mapping, Sequence

from headrace.model.errors import Refused
from headrace.model.times import duration_ms
from headrace.model.validate import bounded_repr, nearest

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_YES = ("true", "yes", "on", "1")
_NO = ("false", "no", "off", "0")
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))

Known = Mapping[str, bool | int]
"""The settings that something has, each with a value of its type."""


def value_text(field: str, value: bool | int) -> str:
    """A value for people, in a form that `read_settings` takes as well."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _exact_text(value) if _is_duration(field) else str(value)


def read_settings(whose: str, known: Known, written: Sequence[str]) -> dict[str, bool | int]:
    """The changes that `key=value` texts ask for; refuses unknown keys, and a key that is there twice.

    `whose` settings they are ("queues") is told in a refusal.
    """
    shorter = {_short(field): field for field in known if _short(field) != field}
    found: dict[str, bool | int] = {}
    for each in written:
        key, equals, text = each.partition("=")
        if not equals:
            raise Refused(
                "bad_config", f"a change is written key=value, as in {_example(known)}; found {bounded_repr(each)}"
            )
        key = key.strip().replace("-", "_")
        field = shorter.get(key, key)
        if field not in known:
            raise _unknown(whose, [*known], [*shorter], key)
        if field in found:
            raise Refused("bad_config", f"{field} is there twice; say it once")
        found[field] = _read(field, key, text.strip(), is_truth=isinstance(known[field], bool))
    return found


def _read(field: str, key: str, text: str, *, is_truth: bool) -> bool | int:
    if is_truth:
        if text.lower() not in _YES + _NO:
            raise Refused("bad_config", f"{field} must be true or false; found {bounded_repr(text)}")
        return text.lower() in _YES
    is_number = _NUMBER.fullmatch(text) is not None
    if not _is_duration(field):
        if not is_number:
            raise Refused("bad_config", f"{field} must be a whole number; found {bounded_repr(text)}")
        return int(text)
    if is_number and (key == field or int(text) == 0):  # `timeout_ms=30000` says its unit, and nothing is nothing
        return int(text)
    if is_number:
        hint = f"write {key}={text}s, or {field}={text} for milliseconds"
        raise Refused("bad_config", f"{key}={text} does not say its unit; {hint}")
    return duration_ms(field, text)


def _example(known: Known) -> str:
    return next((f"{_short(field)}=30s" for field in known if _is_duration(field)), "name=value")


def _exact_text(ms: int) -> str:
    """A duration in the largest unit that tells it whole: two that differ never look alike."""
    for unit, unit_ms in _UNITS_MS:
        if ms and ms % unit_ms == 0:
            return f"{ms // unit_ms}{unit}"
    return f"{ms}ms" if ms else "0"


def _short(field: str) -> str:
    """The name without its unit, for values that say theirs: `backoff_ms_max` is `backoff_max`."""
    return field.replace("_ms", "")


def _is_duration(field: str) -> bool:
    return "_ms" in field


def _unknown(whose: str, known: list[str], shorter: list[str], key: str) -> Refused:
    near = nearest(key, [*known, *shorter])
    hint = f"did you mean {near!r}?" if near else f"known settings: {', '.join(known)}"
    return Refused("bad_config", f"{whose} have no setting {bounded_repr(key)}; {hint}")
