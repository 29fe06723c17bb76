"""The feeds protocol: feeds of a tenant, whose keys and directory lie in one slot."""

from collections.abc import Mapping

from headrace.model.feed import FeedConfig, FeedCursor, FeedName, FeedType
from headrace.model.feed_answers import Changes, FeedState
from headrace.stores.redis.link import Link


class RedisFeeds:
    """Makes and deletes feeds, and reads their logs."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def create(
        self,
        feed: FeedName,
        type: FeedType = "feed",
        changes: Mapping[str, object] | None = None,
        *,
        instance: str,
        now_ms: int | None = None,
    ) -> FeedConfig:
        raise NotImplementedError

    async def configure(
        self,
        feed: FeedName,
        changes: Mapping[str, object],
        *,
        instance: str,
        version: int | None = None,
        now_ms: int | None = None,
    ) -> FeedConfig:
        raise NotImplementedError

    async def delete(self, feed: FeedName, *, instance: str, now_ms: int | None = None) -> None:
        raise NotImplementedError

    async def describe(self, feed: FeedName) -> FeedState | None:
        raise NotImplementedError

    async def changes(self, feed: FeedName, after: FeedCursor | None = None, *, limit: int = 1_000) -> Changes:
        raise NotImplementedError

    async def sweep(self, feed: FeedName, *, now_ms: int | None = None) -> int:
        raise NotImplementedError
