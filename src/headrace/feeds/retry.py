"""Patience with a store that is away: pauses that grow, and are not the same for two."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.limits import FEED_RETRY_MS, FEED_RETRY_MS_MAX, JITTER_PPM
from headrace.model.policy import backoff

T = TypeVar("T")
LOST = (StoreUnavailable, OutcomeUnknown)
"""What a look at a store may raise when it is away; asking again may help."""
_CHANCE = random.Random()


class Backoff:
    """Counts how often in a row it was in vain."""

    def __init__(self) -> None:
        self._times = 0

    async def pause(self) -> None:
        """Wait before the next try."""
        self._times += 1
        jitter_ppm = _CHANCE.randrange(JITTER_PPM // 2, JITTER_PPM)
        await asyncio.sleep(backoff(self._times, FEED_RETRY_MS, FEED_RETRY_MS_MAX, jitter_ppm) / 1_000)

    def rest(self) -> None:
        """It was not in vain."""
        self._times = 0


async def retry_forever(look: Callable[[], Awaitable[T]]) -> T:
    """What a look at the store finds, as soon as the store answers."""
    patience = Backoff()
    while True:
        try:
            return await look()
        except LOST:
            await patience.pause()
