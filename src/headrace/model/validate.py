"""Checks arguments: each check returns nothing, or raises `Refused` with a sentence to act on."""

from collections.abc import Iterable
from itertools import islice

from msgspec import Struct

from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import (
    ECHO_CHARS_MAX,
    ECHO_DEPTH_MAX,
    ECHO_ITEMS_MAX,
    FILE_NAME_BYTES_MAX,
    NEAREST_CHARS_MAX,
    PATH_BYTES_MAX,
    PATH_CHARS_SHOWN_MAX,
    TIME_MS_MAX,
    VERSION_MAX,
)


def check_text(what: str, text: object, chars_max: int, chars_min: int = 1) -> None:
    """Refuse `text` unless it is printable and has `chars_min` to `chars_max` characters."""
    if not isinstance(text, str):
        raise Refused("bad_" + what, f"{what} must be text; found {type(text).__name__} {bounded_repr(text)}")
    if not chars_min <= len(text) <= chars_max:
        raise Refused(
            "bad_" + what,
            f"{what} must have {chars_min} to {chars_max} characters; found {len(text)}: {bounded_repr(text)}",
        )
    if not text.isprintable():
        raise Refused(
            "bad_" + what, f"{what} {bounded_repr(text)} holds a character that cannot be printed; use printable ones"
        )


def check_storable(what: str, text: str) -> None:
    """Refuse `text` with lone surrogates, which UTF-8 cannot encode; they come from badly decoded bytes."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(
            "bad_" + what,
            f"{what} {bounded_repr(text)} holds half a character at {error.start}; decode it properly first",
        ) from error


def check_path(what: str, path: str) -> None:
    """Refuse an impossible path: empty, with a NUL, or longer than the system's limits."""
    if not path:
        raise BadConfig(f"{what} wants the path of a file; found none; name one, or leave the option out")
    if "\0" in path:
        raise BadConfig(f"{what} {cut(path)!r} holds the character NUL, which no path may; write it without")
    size = len(path.encode(errors="replace"))
    name = max(path.split("/"), key=len)
    if size > PATH_BYTES_MAX or len(name.encode(errors="replace")) > FILE_NAME_BYTES_MAX:
        raise BadConfig(
            f"{what} {cut(path)!r} has {size:,} bytes; a path has at most {PATH_BYTES_MAX:,}, and each name in it"
            f" {FILE_NAME_BYTES_MAX}; choose a shorter one"
        )


def shown_path(path: object) -> str:
    """A path for a message."""
    return cut(str(path), PATH_CHARS_SHOWN_MAX)


def check_int(what: str, number: object, least: int, most: int) -> None:
    """Refuse `number` unless it is a whole number with `least <= number <= most`."""
    if type(number) is not int:
        raise Refused(
            "bad_" + what, f"{what} must be a whole number; found {type(number).__name__} {bounded_repr(number)}"
        )
    if not least <= number <= most:
        found = f"{number:,}" if number.bit_length() <= 256 else bounded_repr(number)
        raise Refused("bad_" + what, f"{what} must be from {least:,} to {most:,}; found {found}")


def check_bool(what: str, flag: object) -> None:
    """Refuse `flag` unless it is True or False."""
    if type(flag) is not bool:
        raise Refused("bad_" + what, f"{what} must be true or false; found {bounded_repr(flag)}")


def check_time(what: str, time_ms: object) -> None:
    """Refuse `time_ms` unless it is an instant in milliseconds, from 1970 to 9999."""
    check_int(what, time_ms, 0, TIME_MS_MAX)


def check_version_number(version: object) -> None:
    """Refuse `version` unless it is the number of a configuration, or None for the current one."""
    if version is not None:
        check_int("version", version, 0, VERSION_MAX)


def check_bytes(what: str, encoded: object, bytes_max: int, verb: str) -> None:
    """Refuse `encoded` unless it is at most `bytes_max` bytes; `verb` is what a caller does with an address instead."""
    if not isinstance(encoded, bytes):
        raise Refused("bad_" + what, f"{what} must be encoded bytes; found {type(encoded).__name__}; encode it first")
    if len(encoded) > bytes_max:
        raise Refused(
            what + "_too_large",
            f"{what} has {len(encoded):,} bytes; at most {bytes_max:,} are kept;"
            f" store the data elsewhere and {verb} its address",
        )


def check_batch(what: str, count: int, most: int) -> None:
    """Refuse a batch of more than `most` items."""
    if count > most:
        raise Refused("batch_too_large", f"one call takes at most {most:,} {what}; found {count:,}; send them in parts")


def cut(text: str, chars_max: int = ECHO_CHARS_MAX) -> str:
    """`text`, shortened for a message."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def abridge(text: str, chars_max: int) -> str:
    """`text` without its middle, because an error has its explanation at both ends of a quotation."""
    half = chars_max // 2
    return text if len(text) <= chars_max else f"{text[:half]}…{text[-half:]}"


def bounded_repr(value: object, chars_max: int = ECHO_CHARS_MAX) -> str:
    """`repr(value)`, shortened for a message; large values are cut before they are formatted."""
    return cut(_repr(value, chars_max, ECHO_DEPTH_MAX), 2 * chars_max)


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that `name` is most like, if it may be misspelt."""
    from difflib import get_close_matches  # imported on errors only: commands start faster without it

    return next(iter(get_close_matches(name[:NEAREST_CHARS_MAX], [*known], n=1, cutoff=cutoff)), None)


_BRACKETS = {list: "[]", tuple: "()"}


def _repr(value: object, chars_max: int, depth: int) -> str:
    parts: Iterable[str]
    match value:
        case bool():
            return repr(value)
        case int():
            return repr(value) if value.bit_length() <= 256 else f"a number of {value.bit_length():,} bits"
        case str():
            return repr(cut(str(value[: chars_max + 1]), chars_max))
        case bytes() | bytearray():
            return repr(value[:chars_max]) + ("…" if len(value) > chars_max else "")
        case dict():
            count, first, last = len(value), "{", "}"
            parts = (": ".join(_repr(each, chars_max, depth - 1) for each in pair) for pair in value.items())
        case list() | tuple() | set() | frozenset():
            count, brackets = len(value), _BRACKETS.get(type(value), "{}")
            first, last = brackets[0], brackets[1]
            parts = (_repr(each, chars_max, depth - 1) for each in value)
        case Struct():
            names = value.__struct_fields__
            count, first, last = len(names), f"{type(value).__name__}(", ")"
            parts = (f"{name}={_repr(getattr(value, name, None), chars_max, depth - 1)}" for name in names)
        case _:
            try:
                return repr(value)
            except Exception:  # noqa: BLE001 - foreign code must not fail in the middle of a refusal
                return f"<{type(value).__name__}>"
    if count and not depth:
        return f"{first}…{last}"
    return first + ", ".join(islice(parts, ECHO_ITEMS_MAX)) + (", …" if count > ECHO_ITEMS_MAX else "") + last
