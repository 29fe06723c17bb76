"""An outage of the store: waited for with growing, jittered pauses, and told of once."""

import random

from headrace.client.retry import UNANSWERED, Backoff
from headrace.worker.events import Lifecycle, WorkerEvents

AWAY = (*UNANSWERED, OSError)
"""What asking again may cure. An error of the system, such as no free file descriptor, is told by no store as what it
means: nobody knows what was done."""
PAUSE_MS = 50
PAUSE_MS_MAX = 5_000
HURRIED_MS_MAX = 250


class Reconnect:
    """Counts failures in a row, pauses after each, and reports that the store is lost and that it is back."""

    def __init__(self, notices: WorkerEvents, chance: random.Random) -> None:
        self._notices = notices
        self._backoff = Backoff(PAUSE_MS, PAUSE_MS_MAX, chance)
        self.is_hurried = False
        """Whether the worker is about to end, and has no time for long pauses."""

    @property
    def is_on(self) -> bool:
        """Whether the store did not answer lately."""
        return self._backoff.failures > 0

    async def wait(self, error: Exception) -> None:
        """Pause after a failure."""
        if self._backoff.failures == 1:  # a first one may be a mere hiccup
            self._notices.tell(Lifecycle("store_lost", str(error)))
        await self._backoff.pause(HURRIED_MS_MAX if self.is_hurried else None)

    def over(self) -> None:
        """The store answered."""
        if self._backoff.failures > 1:
            self._notices.tell(Lifecycle("store_back", f"after {self._backoff.failures} attempts"))
        self._backoff.reset()
