"""Settings of a queue as people write and read them: `timeout=30s`, `paused=true`, `keep_done_max=5000`."""

import re
from collections.abc import Sequence
from difflib import get_close_matches

from msgspec import Struct

from headrace.model.config import SETTABLE, QueueConfig, first_config
from headrace.model.errors import Refused
from headrace.model.names import Queue
from headrace.model.times import duration_ms

_NUMBER = re.compile(r"-?[0-9]{1,18}")
_YES = ("true", "yes", "on", "1")
_NO = ("false", "no", "off", "0")
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))


def _short(field: str) -> str:
    """The name without its unit, for values that say theirs: `backoff_ms_max` is `backoff_max`."""
    return field.replace("_ms", "")


_SHORT = {_short(field): field for field in SETTABLE if _short(field) != field}


class Setting(Struct, frozen=True):
    """One setting beside its default."""

    name: str
    value: bool | int
    default: bool | int

    @property
    def differs(self) -> bool:
        """Whether somebody has changed it."""
        return self.value != self.default

    @property
    def text(self) -> str:
        """The value for people."""
        return value_text(self.name, self.value)

    @property
    def default_text(self) -> str:
        """The default for people."""
        return value_text(self.name, self.default)


def settings_of(queue: Queue, config: QueueConfig) -> list[Setting]:
    """All settings of a queue, each beside what the queue started with."""
    default = first_config(queue)
    return [Setting(field, getattr(config, field), getattr(default, field)) for field in SETTABLE]


def value_text(field: str, value: bool | int) -> str:
    """A value for people, in a form that `configure` takes as well."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _exact_text(value) if _is_duration(field) else str(value)


def read_changes(written: Sequence[str]) -> dict[str, bool | int]:
    """The changes that `key=value` texts ask for; refuses unknown keys, and a key that is there twice."""
    found: dict[str, bool | int] = {}
    for each in written:
        key, equals, text = each.partition("=")
        if not equals:
            raise Refused("bad_config", f"a change is written key=value, as in timeout=30s; found {each!r}")
        key = key.strip().replace("-", "_")
        field = _SHORT.get(key, key)
        if field not in SETTABLE:
            raise _unknown(key)
        if field in found:
            raise Refused("bad_config", f"{field} is there twice; say it once")
        found[field] = _read(field, key, text.strip())
    return found


def _read(field: str, key: str, text: str) -> bool | int:
    if isinstance(getattr(QueueConfig(), field), bool):
        if text.lower() not in _YES + _NO:
            raise Refused("bad_config", f"{field} must be true or false; found {text!r}")
        return text.lower() in _YES
    is_number = _NUMBER.fullmatch(text) is not None
    if not _is_duration(field):
        if not is_number:
            raise Refused("bad_config", f"{field} must be a whole number; found {text!r}")
        return int(text)
    if is_number and (key == field or int(text) == 0):  # `timeout_ms=30000` says its unit, and nothing is nothing
        return int(text)
    if is_number:
        hint = f"write {key}={text}s, or {field}={text} for milliseconds"
        raise Refused("bad_config", f"{key}={text} does not say its unit; {hint}")
    return duration_ms(field, text)


def _exact_text(ms: int) -> str:
    """A duration in the largest unit that tells it whole: two that differ never look alike."""
    for unit, unit_ms in _UNITS_MS:
        if ms and ms % unit_ms == 0:
            return f"{ms // unit_ms}{unit}"
    return f"{ms}ms" if ms else "0"


def _is_duration(field: str) -> bool:
    return "_ms" in field


def _unknown(key: str) -> Refused:
    near = get_close_matches(key, [*SETTABLE, *_SHORT], n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known settings: {', '.join(SETTABLE)}"
    return Refused("bad_config", f"queues have no setting {key!r}; {hint}")
