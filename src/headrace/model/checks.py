"""Checks of what callers give: each returns nothing, or raises `Refused` with a sentence to act on."""

from headrace.model.errors import Refused
from headrace.model.limits import TIME_MS_MAX


def check_text(what: str, text: object, chars_max: int, chars_min: int = 1) -> None:
    """Refuse `text` unless it is printable and has `chars_min` to `chars_max` characters."""
    if not isinstance(text, str):
        raise Refused("bad_" + what, f"{what} must be text; found {type(text).__name__} {text!r}")
    if not chars_min <= len(text) <= chars_max:
        raise Refused(
            "bad_" + what, f"{what} must have {chars_min} to {chars_max} characters; found {len(text)}: {cut(text)!r}"
        )
    if not text.isprintable():
        raise Refused(
            "bad_" + what, f"{what} {cut(text)!r} holds a character that cannot be printed; use printable ones"
        )


def check_storable(what: str, text: str) -> None:
    """Refuse `text` that cannot be written as UTF-8: half characters, as badly decoded bytes leave them."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(
            "bad_" + what, f"{what} {cut(text)!r} holds half a character at {error.start}; decode it properly first"
        ) from error


def check_int(what: str, number: object, least: int, most: int) -> None:
    """Refuse `number` unless it is a whole number with `least <= number <= most`."""
    if type(number) is not int:
        raise Refused("bad_" + what, f"{what} must be a whole number; found {type(number).__name__} {number!r}")
    if not least <= number <= most:
        raise Refused("bad_" + what, f"{what} must be from {least:,} to {most:,}; found {number:,}")


def check_time(what: str, time_ms: object) -> None:
    """Refuse `time_ms` unless it is an instant in milliseconds, from 1970 to 9999."""
    check_int(what, time_ms, 0, TIME_MS_MAX)


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


def cut(text: str, chars_max: int = 40) -> str:
    """`text`, shortened for a message."""
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"
