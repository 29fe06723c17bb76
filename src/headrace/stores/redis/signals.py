"""Wakes waiters on a Redis store: by sharded pub/sub, and by a poll now and then."""

import asyncio
import random
from collections.abc import Callable, Sequence

from headrace.model.feed import FeedCursor, FeedName
from headrace.model.names import Queue, Shard
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.connections.pubsub import LINGER_SECONDS, PubSub
from headrace.stores.redis.connections.server import shared
from headrace.stores.redis.fanout import ShardGroup, as_read, call_groups, call_shards
from headrace.stores.redis.keys import ends_channel, feed_key, feed_prefix, prefix_of
from headrace.stores.shared.sharding import by_shard
from headrace.stores.shared.waiters import Waiters, check_changed, check_ended, check_wait, is_set_within

FEED_POLL_SECONDS = 2.5
"""About how long a lost wake-up goes unnoticed; a feed may have many readers."""

Position = tuple[FeedName, FeedCursor | None]
"""A feed, and the cursor of its readers."""


class _SharedPoll:
    """The polls that the readers at one position of a feed share."""

    __slots__ = ("next_poll", "polled_at", "readers")

    def __init__(self) -> None:
        self.readers = 0
        self.polled_at = 0.0
        """When the last poll without a change began."""
        self.next_poll: asyncio.Task[bool] | None = None
        """A poll that has not begun yet: a reader that joins it misses no earlier change."""


class FeedWaiters:
    """Waits for messages about feeds; of many readers at one position, one polls for all."""

    def __init__(self, client: RedisClient, pubsub: PubSub) -> None:
        self._client = client
        self._pubsub = pubsub
        self._waiters = Waiters[str]()
        self._polls: dict[Position, _SharedPoll] = {}

    def __len__(self) -> int:
        return len(self._waiters) + len(self._polls)

    def wake(self, channel: str) -> None:
        """Wake the readers of the feed with this channel."""
        self._waiters.wake([channel])

    async def changed(self, feed: FeedName, after: FeedCursor | None, timeout_ms: int) -> bool:
        """Return True when the feed may have changed, False after the time."""
        position = check_changed(feed, after, timeout_ms), after
        poll = self._polls.setdefault(position, _SharedPoll())
        poll.readers += 1
        try:
            return await self._changed(position, poll, timeout_ms)
        finally:
            poll.readers -= 1
            if not poll.readers:
                del self._polls[position]

    async def _changed(self, position: Position, poll: _SharedPoll, timeout_ms: int) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        channels = [feed_prefix(position[0])]
        with self._waiters.watching(channels) as event, self._pubsub.using(channels):
            while True:
                if timeout_ms:
                    # Before the poll: a message after the poll is then received.
                    await self._pubsub.listen(channels)
                if await self._poll(position, poll):
                    return True
                # Another reader may poll meanwhile, for all.
                pause = FEED_POLL_SECONDS * random.uniform(0.8, 1.2)
                while (until := min(deadline, poll.polled_at + pause)) > loop.time():
                    if await is_set_within(event, until - loop.time()):
                        return True
                if loop.time() >= deadline:
                    return False

    async def _poll(self, position: Position, poll: _SharedPoll) -> bool:
        if poll.next_poll is None:
            poll.next_poll = asyncio.create_task(self._poll_once(position, poll))
            poll.next_poll.add_done_callback(lambda done: done.cancelled() or done.exception())
        return bool(await shared(poll.next_poll))

    async def _poll_once(self, position: Position, poll: _SharedPoll) -> bool:
        poll.next_poll = None
        began_at = asyncio.get_running_loop().time()
        feed, after = position
        args: list[Argument] = [] if after is None else [after.birth, after.epoch, after.seq]
        is_changed = bool(await self._client.call(ServerCall("feed_changed", [feed_key(feed)], args, reads=True)))
        poll.polled_at = began_at
        return is_changed


POLL_SECONDS = 1.0
"""About how long a lost wake-up goes unnoticed."""
END_POLL_SECONDS = 2.5
"""The same for the end of a job, which may have many waiters."""
PUBLISH_ENDS_MS = 15_000
"""How long a shard publishes the ends of jobs after a poll: several polls, so that one may be late."""


class RedisSignals:
    """Waits for messages of shards: each has a channel for wake-ups and one for ends of jobs."""

    def __init__(self, client: RedisClient, linger_seconds: float = LINGER_SECONDS) -> None:
        self._client = client
        self._waiters = Waiters[str]()
        self._ends = Waiters[tuple[str, str]]()
        self._pubsub = PubSub(client.topology, self._on_message, linger_seconds)
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
        groups = [group for queue in queues for group in self._groups(queue)]
        event = asyncio.Event()
        with self._waiters.waking(channels, _Hint(event, taken)), self._pubsub.using(channels):
            while True:
                if timeout_ms:
                    # Before the poll: a message after the poll is then received.
                    await self._pubsub.listen(channels)
                # By the server's clock; refuses a wrong number of shards.
                if any(await call_groups(self._client, "has_work", groups, reads=True)):
                    return True
                left = deadline - loop.time()
                if left <= 0:
                    return False
                # Not all waiters should poll at the same time.
                if await is_set_within(event, min(left, POLL_SECONDS * random.uniform(0.8, 1.2))):
                    return True

    def _groups(self, queue: Queue) -> list[ShardGroup]:
        """The shards of each call that checks a queue for work, and its arguments."""
        shards = queue.all_shards()
        groups = [[shard] for shard in shards] if self._client.clustered else [shards]
        return [(group, ["", *[queue.shards] * len(group)]) for group in groups]

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
                if await self._has_ended(groups, PUBLISH_ENDS_MS if timeout_ms else 0):
                    return True
                left = deadline - loop.time()
                if left <= 0:
                    return False
                if await is_set_within(event, min(left, END_POLL_SECONDS * random.uniform(0.8, 1.2))):
                    return True

    async def _has_ended(self, groups: dict[Shard, list[str]], publish_ms: int) -> bool:
        """Whether a job has ended; publishes ends from then on. A shard that does not exist has none of its jobs."""
        if not groups:
            return False
        with as_read():
            answers = await call_shards(self._client, "await_end", list(groups), [publish_ms], list(groups.values()))
        return any(answer is None or answer for answer in answers)

    async def changed(self, feed: FeedName, after: FeedCursor | None, timeout_ms: int) -> bool:
        return await self._feeds.changed(feed, after, timeout_ms)

    def _on_message(self, channel: str, message: bytes) -> None:
        self._waiters.wake([channel])
        self._feeds.wake(channel)
        if len(self._ends) and message:
            self._ends.wake((channel, id) for id in message.decode().split("\n"))

    def close(self) -> None:
        """Close the connections; the next poll of a waiter says that the store was closed."""
        self._pubsub.close()


class _Hint:
    """An event that is not set when the hint is taken."""

    def __init__(self, event: asyncio.Event, taken: Callable[[], bool]) -> None:
        self._event = event
        self._taken = taken

    def set(self) -> None:
        """Pass a hint on."""
        if not self._taken():
            self._event.set()
