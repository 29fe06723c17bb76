"""Reads what people type after options: durations, instants, and pairs."""

from collections.abc import Iterable

from headrace.model.errors import BadConfig
from headrace.model.times import Duration
from headrace.model.validate import bounded_repr


def written(text: str) -> Duration:
    """A duration as it was typed: with its unit, or a bare number of seconds as everywhere else."""
    try:
        return float(text)
    except ValueError:
        return text


def pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """`NAME=VALUE` as a mapping; refuses what is no pair, and a name that comes twice."""
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise BadConfig(f"{option} wants NAME=VALUE; found {bounded_repr(text)}")
        if name in found:
            raise BadConfig(f"{option} names {bounded_repr(name)} twice; give it once")
        found[name] = value
    return found
