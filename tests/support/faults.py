"""Faults that can be planted in the memory store, each under a name that says what is broken."""

from collections.abc import Callable

FAULTS: dict[str, Callable[[], None]] = {}


def plant(name: str) -> None:
    """Break the memory store of this process in the named way."""
    FAULTS[name]()
