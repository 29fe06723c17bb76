"""Waiters on a Redis store: woken by sharded pub/sub, and looking by themselves once in a while."""

import asyncio
import random
from collections.abc import Sequence

from headrace.model.errors import HeadraceError
from headrace.model.names import Queue
from headrace.stores.calls.wait import Waiters, check_wait, is_set_within
from headrace.stores.redis.asking import in_words
from headrace.stores.redis.ears import Ears
from headrace.stores.redis.errors import ScriptRefusal
from headrace.stores.redis.keys import head_key, prefix_of
from headrace.stores.redis.link import Call, Link

POLL_SECONDS = 1.0
"""How long a lost wake-up goes unnoticed, more or less."""


class RedisSignals:
    """Sleeps on an event that messages set; the channel of a shard is its prefix."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._waiters = Waiters()
        self._ears = Ears(link.topology, self._wake)

    async def wait(self, queues: Sequence[Queue], timeout_ms: int) -> bool:
        check_wait(queues, timeout_ms)
        queues = list(dict.fromkeys(queues))
        channels = [prefix_of(shard) for queue in queues for shard in queue.all_shards()]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        looks = [look for queue in queues for look in self._looks(queue)]
        with self._waiters.watching([("", channel) for channel in channels]) as event, self._ears.using(channels):
            while True:
                if timeout_ms:
                    # Before the look: what comes after the look is then heard.
                    await self._ears.listen(channels)
                if await self._has_work(looks):
                    return True
                left = deadline - loop.time()
                if left <= 0:
                    return False
                # Not all waiters should look at the same time.
                if await is_set_within(event, min(left, POLL_SECONDS * random.uniform(0.8, 1.2))):
                    return True

    def _looks(self, queue: Queue) -> list[tuple[Queue, Call]]:
        keys = [head_key(shard) for shard in queue.all_shards()]
        groups = [[key] for key in keys] if self._link.clustered else [keys]
        return [(queue, Call("peek", group, ["", *[queue.shards] * len(group)], reads=True)) for group in groups]

    async def _has_work(self, looks: Sequence[tuple[Queue, Call]]) -> bool:
        """Whether a claim now, by the server's clock, would find something; refuses a wrong number of shards."""
        answers = await self._link.call_each([call for _, call in looks])
        for (queue, _), answer in zip(looks, answers, strict=True):
            if isinstance(answer, ScriptRefusal):
                raise in_words(queue, answer) from answer
            if isinstance(answer, HeadraceError):
                raise answer
        return any(answers)

    def _wake(self, channel: str) -> None:
        self._waiters.wake([("", channel)])

    def close(self) -> None:
        """Let go of the connections; the next look of those who sleep says that the store was closed."""
        self._ears.close()
