"""Reads the system clock; all other modules take instants as arguments."""

import time
from typing import Protocol


class Clock(Protocol):
    """A clock in whole milliseconds since 1970 UTC."""

    def now_ms(self) -> int:
        """The present instant."""


class SystemClock:
    """The clock of this process."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is moved; for tests and simulations."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, ms: int) -> int:
        """Move the clock by `ms` (negative moves it back) and return the new instant."""
        self._now_ms += ms
        return self._now_ms


def monotonic_ms() -> int:
    """Milliseconds that never go back, for measuring how long something took."""
    return time.monotonic_ns() // 1_000_000
