"""An outage of the store: waited for with growing, jittered pauses, and told of once."""

import asyncio
import random

from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.worker.events import Lifecycle, WorkerEvents

AWAY = (StoreUnavailable, OutcomeUnknown, OSError)
"""What asking again may cure. An error of the system, such as no free file descriptor, is told by no store as what it
means: nobody knows what was done."""
PAUSE_SECONDS = 0.05
PAUSE_SECONDS_MAX = 5.0
HURRIED_SECONDS_MAX = 0.25


class Reconnect:
    """Counts failures in a row. Pauses are drawn from half of the full pause to all of it: many workers that lost the
    same store do not come back in the same instant."""

    def __init__(self, notices: WorkerEvents, chance: random.Random) -> None:
        self._notices = notices
        self._chance = chance
        self._failures = 0
        self.is_hurried = False
        """Whether the worker is about to end, and has no time for long pauses."""

    @property
    def is_on(self) -> bool:
        """Whether the store did not answer lately."""
        return self._failures > 0

    async def wait(self, error: Exception) -> None:
        """Pause after a failure."""
        if self._failures == 1:  # a first one may be a mere hiccup
            self._notices.tell(Lifecycle("store_lost", str(error)))
        most = HURRIED_SECONDS_MAX if self.is_hurried else PAUSE_SECONDS_MAX
        full = min(PAUSE_SECONDS * 2 ** min(self._failures, 16), most)
        self._failures += 1
        await asyncio.sleep(full * self._chance.uniform(0.5, 1.0))

    def over(self) -> None:
        """The store answered."""
        if self._failures > 1:
            self._notices.tell(Lifecycle("store_back", f"after {self._failures} attempts"))
        self._failures = 0
