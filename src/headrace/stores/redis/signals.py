"""Waiters on a Redis store: woken by sharded pub/sub, and looking by themselves once in a while."""

import asyncio
import random
from collections.abc import Callable, Sequence

from headrace.model.errors import HeadraceError
from headrace.model.feed import FeedCursor, FeedName
from headrace.model.names import Queue, Shard
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.errors import ScriptRefusal
from headrace.stores.redis.fanout import ask, in_words, looking
from headrace.stores.redis.keys import ends_channel, feed_key, feed_prefix, head_key, prefix_of
from headrace.stores.redis.pubsub import LINGER_SECONDS, PubSub
from headrace.stores.redis.server import shared
from headrace.stores.shared.sharding import by_shard
from headrace.stores.shared.waiters import Waiters, check_changed, check_ended, check_wait, is_set_within

FEED_POLL_SECONDS = 2.5
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


class FeedWaiters:
    """Sleeps on an event that messages set; of many readers at one place only one looks for all."""

    def __init__(self, client: RedisClient, pubsub: PubSub) -> None:
        self._client = client
        self._pubsub = pubsub
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
        with self._waiters.watching(channels) as event, self._pubsub.using(channels):
            while True:
                if timeout_ms:
                    # Before the look: what comes after the look is then heard.
                    await self._pubsub.listen(channels)
                if await self._look(place, sight):
                    return True
                # Somebody else may look meanwhile, for all.
                pause = FEED_POLL_SECONDS * random.uniform(0.8, 1.2)
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
        found = bool(await self._client.call(ServerCall("feed_changed", [feed_key(feed)], given, reads=True)))
        sight.looked_at = began_at
        return found


POLL_SECONDS = 1.0
"""How long a lost wake-up goes unnoticed, more or less."""
END_POLL_SECONDS = 2.5
"""The same for the end of a job, for which many may wait at once."""
TELL_MS = 15_000
"""For how long ends are told after somebody looked: several of its looks, so that one may be late."""


class RedisSignals:
    """Sleeps on an event that messages set; a shard has a channel for wake-ups and one for ends of jobs."""

    def __init__(self, client: RedisClient, linger_seconds: float = LINGER_SECONDS) -> None:
        self._client = client
        self._waiters = Waiters[str]()
        self._ends = Waiters[tuple[str, str]]()
        self._pubsub = PubSub(client.topology, self._take, linger_seconds)
        self._feeds = FeedWaiters(client, self._pubsub)

    async def wait(self, queues: Sequence[Queue], timeout_ms: int) -> bool:
        return await self.wait_unless(queues, timeout_ms, lambda: False)

    async def wait_unless(self, queues: Sequence[Queue], timeout_ms: int, taken: Callable[[], bool]) -> bool:
        """See `HintSource`."""
        check_wait(queues, timeout_ms)
        queues = list(dict.fromkeys(queues))
        channels = [prefix_of(shard) for queue in queues for shard in queue.all_shards()]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        looks = [look for queue in queues for look in self._looks(queue)]
        event = asyncio.Event()
        with self._waiters.waking(channels, _Hint(event, taken)), self._pubsub.using(channels):
            while True:
                if timeout_ms:
                    # Before the look: what comes after the look is then heard.
                    await self._pubsub.listen(channels)
                if await self._has_work(looks):
                    return True
                left = deadline - loop.time()
                if left <= 0:
                    return False
                # Not all waiters should look at the same time.
                if await is_set_within(event, min(left, POLL_SECONDS * random.uniform(0.8, 1.2))):
                    return True

    def _looks(self, queue: Queue) -> list[tuple[Queue, ServerCall]]:
        keys = [head_key(shard) for shard in queue.all_shards()]
        groups = [[key] for key in keys] if self._client.clustered else [keys]
        return [
            (queue, ServerCall("has_work", group, ["", *[queue.shards] * len(group)], reads=True)) for group in groups
        ]

    async def _has_work(self, looks: Sequence[tuple[Queue, ServerCall]]) -> bool:
        """Whether a claim now, by the server's clock, would find something; refuses a wrong number of shards."""
        answers = await self._client.call_each([call for _, call in looks])
        for (queue, _), answer in zip(looks, answers, strict=True):
            if isinstance(answer, ScriptRefusal):
                raise in_words(queue, answer) from answer
            if isinstance(answer, HeadraceError):
                raise answer
        return any(answers)

    async def ended(self, queue: Queue, ids: Sequence[str], timeout_ms: int) -> bool:
        check_ended(queue, ids, timeout_ms)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        unique = list(dict.fromkeys(ids))
        groups = {shard: [unique[at] for at in picks] for shard, picks in by_shard(unique, lambda id: (queue, id))}
        channels = [ends_channel(shard) for shard in groups]
        names = [(ends_channel(shard), id) for shard, its in groups.items() for id in its]
        with self._ends.watching(names) as event, self._pubsub.using(channels):
            while True:
                if timeout_ms:
                    await self._pubsub.listen(channels)
                if await self._has_ended(groups, TELL_MS if timeout_ms else 0):
                    return True
                left = deadline - loop.time()
                if left <= 0:
                    return False
                if await is_set_within(event, min(left, END_POLL_SECONDS * random.uniform(0.8, 1.2))):
                    return True

    async def _has_ended(self, groups: dict[Shard, list[str]], tell_ms: int) -> bool:
        """Whether one has; from then on ends are told. A shard that is not there knows none of its jobs."""
        if not groups:
            return False
        with looking():
            answers = await ask(self._client, "await_end", list(groups), [tell_ms], list(groups.values()))
        return any(answer is None or answer for answer in answers)

    async def changed(self, feed: FeedName, after: FeedCursor | None, timeout_ms: int) -> bool:
        return await self._feeds.changed(feed, after, timeout_ms)

    def _take(self, channel: str, said: bytes) -> None:
        self._waiters.wake([channel])
        self._feeds.wake(channel)
        if len(self._ends) and said:
            self._ends.wake((channel, id) for id in said.decode().split("\n"))

    def close(self) -> None:
        """Let go of the connections; the next look of those who sleep says that the store was closed."""
        self._pubsub.close()


class _Hint:
    """An event that is not set where somebody takes the hint."""

    def __init__(self, event: asyncio.Event, taken: Callable[[], bool]) -> None:
        self._event = event
        self._taken = taken

    def set(self) -> None:
        """Take a hint."""
        if not self._taken():
            self._event.set()
