"""Readers of feeds: woken by sharded pub/sub, looking by themselves once in a while, and sharing what they see."""

import asyncio
import random

from headrace.model.feed import FeedCursor, FeedName
from headrace.stores.calls.changed import check_changed
from headrace.stores.calls.wait import Waiters, is_set_within
from headrace.stores.redis.ears import Ears
from headrace.stores.redis.keys import feed_key, feed_prefix
from headrace.stores.redis.link import Argument, Call, Link
from headrace.stores.redis.server import shared

POLL_SECONDS = 2.5
"""How long a lost wake-up goes unnoticed, more or less; readers of a feed may be many."""

Place = tuple[FeedName, FeedCursor | None]


class _Sight:
    """What the readers at one place of a feed have in common."""

    __slots__ = ("looked_at", "next_look", "users")

    def __init__(self) -> None:
        self.users = 0
        self.looked_at = 0.0
        """When the last look that found nothing began."""
        self.next_look: asyncio.Task[bool] | None = None
        """A look that has not begun yet: who joins it misses nothing that was told before."""


class Following:
    """Sleeps on an event that messages set; of many readers at one place only one looks for all."""

    def __init__(self, link: Link, ears: Ears) -> None:
        self._link = link
        self._ears = ears
        self._waiters = Waiters[str]()
        self._sights: dict[Place, _Sight] = {}

    def __len__(self) -> int:
        return len(self._waiters) + len(self._sights)

    def wake(self, channel: str) -> None:
        """Wake the readers of the feed that this is the channel of."""
        self._waiters.wake([channel])

    async def changed(self, feed: FeedName, after: FeedCursor | None, timeout_ms: int) -> bool:
        """Return True when the feed may have changed, False after the time."""
        place = check_changed(feed, after, timeout_ms), after
        sight = self._sights.setdefault(place, _Sight())
        sight.users += 1
        try:
            return await self._changed(place, sight, timeout_ms)
        finally:
            sight.users -= 1
            if not sight.users:
                del self._sights[place]

    async def _changed(self, place: Place, sight: _Sight, timeout_ms: int) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        channels = [feed_prefix(place[0])]
        with self._waiters.watching(channels) as event, self._ears.using(channels):
            while True:
                if timeout_ms:
                    # Before the look: what comes after the look is then heard.
                    await self._ears.listen(channels)
                if await self._look(place, sight):
                    return True
                # Somebody else may look meanwhile, for all.
                pause = POLL_SECONDS * random.uniform(0.8, 1.2)
                while (until := min(deadline, sight.looked_at + pause)) > loop.time():
                    if await is_set_within(event, until - loop.time()):
                        return True
                if loop.time() >= deadline:
                    return False

    async def _look(self, place: Place, sight: _Sight) -> bool:
        if sight.next_look is None:
            sight.next_look = asyncio.create_task(self._look_once(place, sight))
            sight.next_look.add_done_callback(lambda done: done.cancelled() or done.exception())
        return bool(await shared(sight.next_look))

    async def _look_once(self, place: Place, sight: _Sight) -> bool:
        sight.next_look = None
        began_at = asyncio.get_running_loop().time()
        feed, after = place
        given: list[Argument] = [] if after is None else [after.birth, after.epoch, after.seq]
        found = bool(await self._link.call(Call("feed_changed", [feed_key(feed)], given, reads=True)))
        sight.looked_at = began_at
        return found
