"""Reads the payload of a job as people type it: JSON, `name=value` pairs, a file, or what is piped in."""

import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.codec import RAW
from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import PAYLOAD_BYTES_MAX
from headrace.model.validate import bounded_repr, check_path, cut, shown_path

if TYPE_CHECKING:
    from headrace.app.job_function import JobFunction

STDIN = "-"
_PAIR = re.compile(r"([^\W\d]\w*)=(.*)", re.DOTALL)
Typed = bytes | dict[str, str]
"""A text that holds the whole payload, or arguments by name."""


def typed_payload(words: Sequence[str], file: Path | None, what: str = "payload") -> Typed:
    """What was typed, piped or put into a file; no arguments when it was nothing. A refusal calls it `what`."""
    if file is not None:
        if words:
            raise BadConfig(f"{_a(what)} is given once; found --payload-file and {bounded_repr(words[0])}")
        return _read(str(file), what)
    if list(words) == [STDIN]:
        return _read(STDIN, what)
    pairs = [_PAIR.fullmatch(word) for word in words]
    if len(words) == 1 and pairs[0] is None:
        return words[0].encode("utf-8", "surrogateescape")  # what is no text is no JSON either
    found: dict[str, str] = {}
    for word, pair in zip(words, pairs, strict=True):
        if pair is None:
            raise BadConfig(
                f"{_a(what)} is JSON in one word ('{{\"user_id\": 42}}') or pairs (user_id=42); found"
                f" {bounded_repr(word)} among several words"
            )
        if pair[1] in found:
            raise BadConfig(f"the {what} names {bounded_repr(pair[1])} twice; give it once")
        found[pair[1]] = pair[2]
    return found


def value_of(typed: Typed, function: "JobFunction[..., Any] | None" = None, what: str = "payload") -> Any:
    """The payload as a value; None when nothing was typed. In pairs, what is JSON is taken so (42, true, null, [1, 2]),
    the rest is text; what the function wants as text is text in any case."""
    if isinstance(typed, bytes):
        is_raw = function is not None and function.handler.codec is RAW
        return typed if is_raw else _json(typed, what)
    if not typed:
        return None
    texts = _texts(function)
    return {name: text if name in texts else _json_or_text(text) for name, text in typed.items()}


def _texts(function: "JobFunction[..., Any] | None") -> set[str]:
    if function is None:
        return set()
    try:
        signature = inspect.signature(function.handler.function, eval_str=True)
    except NameError:  # the app itself could read its annotations, in whatever way
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
            f"the {what} {cut(repr(text.decode('utf-8', 'replace')))} is no JSON ({error}); write JSON"
            " ('{\"user_id\": 42}', '\"a text\"') or pairs (user_id=42)",
        ) from error


def _a(what: str) -> str:
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
            " where it is",
        )
    return found
