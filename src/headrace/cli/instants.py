"""Reads and shows the times of commands: instants and how long ago something was."""

from headrace.model.errors import Refused
from headrace.model.times import duration_ms, duration_text, instant_text, read_instant_ms
from headrace.model.validate import bounded_repr


def past_ms(what: str, text: str, now_ms: int) -> int:
    """The instant that a person means: how long ago ("2h"), or when (ISO 8601 with its zone, or milliseconds)."""
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
            f"{what} {bounded_repr(text)} is no time; say how long ago ('30s', '2h', '7d'), or when, as in"
            " 2030-01-31T12:00:00Z",
        ) from None


def ago(at_ms: int, now_ms: int) -> str:
    """How long ago, for people."""
    return f"{duration_text(max(now_ms - at_ms, 0))} ago"


def instants(**named_ms: int | None) -> dict[str, object]:
    """Instants for programs, each as text and in milliseconds: `died_at_ms=…` gives `died_at` and `died_at_ms`."""
    found: dict[str, object] = {}
    for name, at_ms in named_ms.items():
        found[name.removesuffix("_ms")] = None if at_ms is None else instant_text(at_ms)
        found[name] = at_ms
    return found
