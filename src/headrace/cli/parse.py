"""Reads payloads, durations and settings as people type them."""

import inspect
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.codec import RAW
from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import PAYLOAD_BYTES_MAX
from headrace.model.times import Duration, duration_ms
from headrace.model.validate import bounded_repr, check_path, cut, nearest, shown_path

if TYPE_CHECKING:
    from headrace.app.job_function import JobFunction


STDIN = "-"
_PAIR = re.compile(r"([^\W\d]\w*)=(.*)", re.DOTALL)
Typed = bytes | dict[str, str]
"""A text with the whole payload, or arguments by name."""


def typed_payload(words: Sequence[str], file: Path | None, what: str = "payload") -> Typed:
    """The typed, piped or filed payload; empty arguments without one. Errors name it by `what`."""
    if file is not None:
        if words:
            raise BadConfig(
                f"{_with_article(what)} can be given once; found --payload-file and {bounded_repr(words[0])}"
            )
        return _read(str(file), what)
    if list(words) == [STDIN]:
        return _read(STDIN, what)
    pairs = [_PAIR.fullmatch(word) for word in words]
    if len(words) == 1 and pairs[0] is None:
        return words[0].encode("utf-8", "surrogateescape")  # the surrogates are refused as JSON
    arguments: dict[str, str] = {}
    for word, pair in zip(words, pairs, strict=True):
        if pair is None:
            raise BadConfig(
                f"{_with_article(what)} is JSON in one word ('{{\"user_id\": 42}}') or pairs (user_id=42); found"
                f" {bounded_repr(word)} among several words"
            )
        if pair[1] in arguments:
            raise BadConfig(f"the {what} names {bounded_repr(pair[1])} twice; give it once")
        arguments[pair[1]] = pair[2]
    return arguments


def value_of(typed: Typed, function: "JobFunction[..., Any] | None" = None, what: str = "payload") -> Any:
    """The payload as a value; None for an empty one. In pairs, valid JSON is decoded (42, true, null, [1, 2]) and all
    else is text; a parameter annotated as str is always text."""
    if isinstance(typed, bytes):
        is_raw = function is not None and function.handler.codec is RAW
        return typed if is_raw else _json(typed, what)
    if not typed:
        return None
    texts = _text_parameters(function)
    return {name: text if name in texts else _json_or_text(text) for name, text in typed.items()}


def _text_parameters(function: "JobFunction[..., Any] | None") -> set[str]:
    if function is None:
        return set()
    try:
        signature = inspect.signature(function.handler.function, eval_str=True)
    except NameError:  # the app resolves its annotations itself
        return set()
    return {name for name, each in signature.parameters.items() if each.annotation is str}


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return text


def _json(text: bytes, what: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise Refused(
            f"bad_{what}",
            f"the {what} {cut(repr(text.decode('utf-8', 'replace')))} is not valid JSON ({error}); write JSON"
            " ('{\"user_id\": 42}', '\"a text\"') or pairs (user_id=42)",
        ) from error


def _with_article(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"


def _read(name: str, what: str) -> bytes:
    check_path(f"the file of the {what}", "" if name == str(Path()) else name)
    try:
        if name == STDIN:
            found = sys.stdin.buffer.read(PAYLOAD_BYTES_MAX + 1)
        else:
            with Path(name).open("rb") as file:
                found = file.read(PAYLOAD_BYTES_MAX + 1)
    except OSError as error:
        raise BadConfig(f"the {what} cannot be read from {shown_path(name)}: {error.strerror or error}") from error
    if len(found) > PAYLOAD_BYTES_MAX:
        raise Refused(
            f"{what}_too_large",
            f"the {what} in {shown_path(name)} has more than {PAYLOAD_BYTES_MAX:,} bytes; store it elsewhere and send"
            " its location",
        )
    return found


def typed_duration(text: str) -> Duration:
    """A typed duration: with a unit, or a number of seconds."""
    try:
        return float(text)
    except ValueError:
        return text


def pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """`NAME=VALUE` texts as a mapping; refuses other texts and repeated names."""
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise BadConfig(f"{option} must be NAME=VALUE; found {bounded_repr(text)}")
        if name in found:
            raise BadConfig(f"{option} names {bounded_repr(name)} twice; give it once")
        found[name] = value
    return found


_NUMBER = re.compile(r"-?[0-9]{1,18}")
_YES = ("true", "yes", "on", "1")
_NO = ("false", "no", "off", "0")
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))

Known = Mapping[str, bool | int]
"""The settings of a queue or feed, each with a value of its type."""


def value_text(field: str, value: bool | int) -> str:
    """A value as text, in a form that `read_settings` accepts."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return _exact_text(value) if _is_duration(field) else str(value)


def read_settings(owners: str, known: Known, texts: Sequence[str]) -> dict[str, bool | int]:
    """The settings of `key=value` texts; refuses unknown and repeated keys. Errors name the `owners` ("queues")."""
    shorter = {_short(field): field for field in known if _short(field) != field}
    found: dict[str, bool | int] = {}
    for each in texts:
        key, equals, text = each.partition("=")
        if not equals:
            raise Refused(
                "bad_config", f"a setting must be key=value, as in {_example(known)}; found {bounded_repr(each)}"
            )
        key = key.strip().replace("-", "_")
        field = shorter.get(key, key)
        if field not in known:
            raise _unknown(owners, [*known], [*shorter], key)
        if field in found:
            raise Refused("bad_config", f"{field} is given twice; give it once")
        found[field] = _setting(field, key, text.strip(), is_boolean=isinstance(known[field], bool))
    return found


def _setting(field: str, key: str, text: str, *, is_boolean: bool) -> bool | int:
    if is_boolean:
        if text.lower() not in _YES + _NO:
            raise Refused("bad_config", f"{field} must be true or false; found {bounded_repr(text)}")
        return text.lower() in _YES
    is_number = _NUMBER.fullmatch(text) is not None
    if not _is_duration(field):
        if not is_number:
            raise Refused("bad_config", f"{field} must be a whole number; found {bounded_repr(text)}")
        return int(text)
    if is_number and (key == field or int(text) == 0):  # `timeout_ms=30000` has its unit, and zero needs none
        return int(text)
    if is_number:
        hint = f"write {key}={text}s, or {field}={text} for milliseconds"
        raise Refused("bad_config", f"{key}={text} has no unit; {hint}")
    return duration_ms(field, text)


def _example(known: Known) -> str:
    return next((f"{_short(field)}=30s" for field in known if _is_duration(field)), "name=value")


def _exact_text(ms: int) -> str:
    """A duration in the largest exact unit, so that different durations never look alike."""
    for unit, unit_ms in _UNITS_MS:
        if ms and ms % unit_ms == 0:
            return f"{ms // unit_ms}{unit}"
    return f"{ms}ms" if ms else "0"


def _short(field: str) -> str:
    """The name without the unit, for values with one: `backoff_max` for `backoff_ms_max`."""
    return field.replace("_ms", "")


def _is_duration(field: str) -> bool:
    return "_ms" in field


def _unknown(owners: str, known: list[str], shorter: list[str], key: str) -> Refused:
    near = nearest(key, [*known, *shorter])
    hint = f"did you mean {near!r}?" if near else f"known settings: {', '.join(known)}"
    return Refused("bad_config", f"{owners} have no setting {bounded_repr(key)}; {hint}")
