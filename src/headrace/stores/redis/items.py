"""The items protocol: what a feed holds, in its order."""

from collections.abc import Sequence

from headrace.model.feed import FeedName, Item, Move, Publication
from headrace.model.feed_answers import Items, Moved, Published, Retracted
from headrace.stores.redis.link import Link


class RedisItems:
    """Puts items into feeds, takes them out and shows them."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def publish(
        self, feed: FeedName, publications: Sequence[Publication], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Published]:
        raise NotImplementedError

    async def retract(
        self, feed: FeedName, ids: Sequence[str], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Retracted]:
        raise NotImplementedError

    async def move(
        self, feed: FeedName, moves: Sequence[Move], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Moved]:
        raise NotImplementedError

    async def take(self, feed: FeedName, limit: int = 1, *, now_ms: int | None = None) -> Sequence[Item]:
        raise NotImplementedError

    async def find(self, feed: FeedName, ids: Sequence[str], *, now_ms: int | None = None) -> Sequence[Item | None]:
        raise NotImplementedError

    async def list(
        self, feed: FeedName, *, cursor: str | None = None, limit: int = 1_000, now_ms: int | None = None
    ) -> Items:
        raise NotImplementedError

    async def snapshot(self, feed: FeedName, *, now_ms: int | None = None) -> Items:
        raise NotImplementedError
