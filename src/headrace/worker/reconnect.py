"""Waits out an outage of the store with growing, jittered pauses, and reports it once."""

import random

from headrace.client.retry import UNANSWERED, Backoff
from headrace.worker.events import EventEmitter, Lifecycle

UNAVAILABLE = (*UNANSWERED, OSError)
"""Errors for which a retry may succeed. After an error of the operating system, such as no free file descriptor, the
outcome of the call is unknown."""
PAUSE_MS = 50
PAUSE_MS_MAX = 5_000
HURRIED_MS_MAX = 250


class Reconnect:
    """Counts failures in a row, pauses after each, and reports the loss and the return of the store."""

    def __init__(self, events: EventEmitter, rng: random.Random) -> None:
        self._events = events
        self._backoff = Backoff(PAUSE_MS, PAUSE_MS_MAX, rng)
        self.is_hurried = False
        """Whether the worker is stopping and has no time for long pauses."""

    async def wait(self, error: Exception) -> None:
        """Pause after a failure."""
        if self._backoff.failures == 1:  # the first failure may be a mere hiccup
            self._events.emit(Lifecycle("store_lost", str(error)))
        await self._backoff.pause(HURRIED_MS_MAX if self.is_hurried else None)

    def reset(self) -> None:
        """Note that the store answered."""
        if self._backoff.failures > 1:
            self._events.emit(Lifecycle("store_back", f"after {self._backoff.failures} attempts"))
        self._backoff.reset()
