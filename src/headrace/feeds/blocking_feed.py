"""Feeds, sorted feeds and plain queues for programs without an event loop."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.client.codec import Codec
from headrace.feeds.access import Access
from headrace.feeds.any_feed import AnyFeed
from headrace.feeds.blocking_subscription import BlockingSubscription
from headrace.feeds.feed import Feed, FollowedFeed
from headrace.feeds.plain_queue import PlainQueue
from headrace.feeds.sorted_feed import SortedFeed
from headrace.feeds.stream import Stream
from headrace.model.clock import monotonic_ms
from headrace.model.feed import FeedConfig, FeedName, Item
from headrace.model.times import Duration, duration_ms

if TYPE_CHECKING:
    from headrace.feeds.blocking import BlockingFeeds

T = TypeVar("T")
F = TypeVar("F", bound=AnyFeed)
Followed = TypeVar("Followed", bound=FollowedFeed)


class BlockingAnyFeed(Generic[F]):
    """A feed for threads: every method waits for its answer, and says what its twin in `AnyFeed` says."""

    twin: type[F]
    """What does the work on the background's loop."""

    def __init__(self, feeds: "BlockingFeeds", feed: FeedName) -> None:
        self.feed = feed
        """Its name and tenant."""
        self._feeds = feeds

    @property
    def name(self) -> str:
        """Its name."""
        return self.feed.name

    def ids(self) -> list[str]:
        """The ids of all items, in the order of the feed."""
        return self._ask(lambda feed: feed.ids())

    def item(self, id: str, *, type: Any = Any) -> Any:
        """The item of an id, read as `type`; None when there is no such item."""
        return self._ask(lambda feed: feed.item(id, type=type))

    def items(self, *, type: Any = Any) -> dict[str, Any]:
        """All items by id, in the order of the feed, as they were at one instant."""
        return self._ask(lambda feed: feed.items(type=type))

    def has(self, id: str) -> bool:
        """Whether there is an item of this id."""
        return self._ask(lambda feed: feed.has(id))

    def count(self) -> int:
        """How many items there are."""
        return self._ask(lambda feed: feed.count())

    def total(self) -> int:
        """How many items were published and edited, ever."""
        return self._ask(lambda feed: feed.total())

    def config(self) -> FeedConfig:
        """Its configuration."""
        return self._ask(lambda feed: feed.config())

    def retract(self, id: str) -> bool:
        """Take an item out; False when there is no such item."""
        return self._ask(lambda feed: feed.retract(id))

    def _ask(self, ask: Callable[[F], Coroutine[Any, Any, T]]) -> T:
        return self._feeds.run(lambda access: ask(self.twin(access, self.feed)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.feed)!r}>"


class BlockingFollowedFeed(BlockingAnyFeed[Followed]):
    """A feed for threads that can be subscribed to."""

    def edit(self, id: str, item: object) -> None:
        """Replace an item; raises `Refused` (`unknown_item`) when there is none of this id."""
        return self._ask(lambda feed: feed.edit(id, item))

    def subscribe(
        self, *, cursor: str | None = None, own: bool = True, heartbeat: Duration | None = None, type: Any = Any
    ) -> BlockingSubscription:
        """What is there, then what changes: `for change in feed.subscribe():`; see `Feed.subscribe`."""
        make = partial(_subscribed, feed=self.feed, own=own, heartbeat=heartbeat, type=type)
        return BlockingSubscription(self._feeds, make, cursor)


def _subscribed(
    access: Access, cursor: str | None, *, feed: FeedName, own: bool, heartbeat: Duration | None, type: Any
) -> Stream:
    return FollowedFeed(access, feed).subscribe(cursor=cursor, own=own, heartbeat=heartbeat, type=type)


class BlockingFeed(BlockingFollowedFeed[Feed]):
    """A `Feed` for threads."""

    twin = Feed

    def publish(self, item: object, *, id: str | None = None) -> str:
        """Publish an item and return its id; a known id is edited, and goes last."""
        return self._ask(lambda feed: feed.publish(item, id=id))

    def publish_many(self, items: Iterable[object], *, ids: Sequence[str] | None = None) -> list[str]:
        """Publish any number of items in their order; see `Feed.publish_many`."""
        listed = list(items)  # on the caller's own thread
        return self._ask(lambda feed: feed.publish_many(listed, ids=ids))


class BlockingSortedFeed(BlockingFollowedFeed[SortedFeed]):
    """A `SortedFeed` for threads."""

    twin = SortedFeed

    def append(self, item: object, *, id: str | None = None) -> str:
        """Put an item last and return its id."""
        return self._ask(lambda feed: feed.append(item, id=id))

    def prepend(self, item: object, *, id: str | None = None) -> str:
        """Put an item first and return its id."""
        return self._ask(lambda feed: feed.prepend(item, id=id))

    def before(self, other: str, item: object, *, id: str | None = None) -> str:
        """Put an item before the one with the id `other`."""
        return self._ask(lambda feed: feed.before(other, item, id=id))

    def after(self, other: str, item: object, *, id: str | None = None) -> str:
        """Put an item behind the one with the id `other`."""
        return self._ask(lambda feed: feed.after(other, item, id=id))

    def publish_many(self, items: Iterable[object], *, ids: Sequence[str] | None = None) -> list[str]:
        """Put any number of items last, in their order; see `SortedFeed.publish_many`."""
        listed = list(items)
        return self._ask(lambda feed: feed.publish_many(listed, ids=ids))

    def move(
        self, id: str, *, before: str | None = None, after: str | None = None, first: bool = False, last: bool = False
    ) -> bool:
        """Put an item elsewhere; see `SortedFeed.move`."""
        return self._ask(lambda feed: feed.move(id, before=before, after=after, first=first, last=last))


class BlockingPlainQueue(BlockingAnyFeed[PlainQueue]):
    """A `PlainQueue` for threads."""

    twin = PlainQueue

    def put(self, item: object, *, high: bool = False) -> str:
        """Put an item last and return its id; with `high` first, next to be got."""
        return self._ask(lambda queue: queue.put(item, high=high))

    def put_many(self, items: Iterable[object], *, high: bool = False) -> list[str]:
        """Put any number of items in their order; see `PlainQueue.put_many`."""
        listed = list(items)
        return self._ask(lambda queue: queue.put_many(listed, high=high))

    def get(self, timeout: Duration | None = None, *, type: Any = Any) -> Any:
        """Take the next item out, waiting for one if need be; see `PlainQueue.get`. Ctrl-C leaves it to the next."""
        until_ms = None if timeout is None else monotonic_ms() + duration_ms("timeout", timeout)
        getting = _Getting(self.feed, until_ms)
        try:
            self._feeds.run(getting.get, patient=True)
        except Exception:
            raise
        except BaseException:
            self._feeds.run(getting.give_back)  # what came in the very moment in which nobody wanted it any more
            raise
        return getting.value(type)


class _Getting:
    """One call of `get`: what it got stays here until the thread has seen it."""

    def __init__(self, feed: FeedName, until_ms: int | None) -> None:
        self._feed = feed
        self._until_ms = until_ms
        self._is_over = asyncio.Event()
        self._is_over.set()
        self._got: tuple[Item, Codec] | None = None

    async def get(self, access: Access) -> None:
        """Get an item; begun anew after a fork elsewhere in the program, which breaks it off."""
        queue = PlainQueue(access, self._feed)
        left = None if self._until_ms is None else max(self._until_ms - monotonic_ms(), 0) / 1_000
        self._is_over.clear()
        try:
            self._got = await queue.take(left), access.codec
        except asyncio.CancelledError:
            await queue.settled()  # the store is closed next
            raise
        finally:
            self._is_over.set()

    async def give_back(self, access: Access) -> None:
        """Put what was got back to where it was."""
        await self._is_over.wait()
        if self._got is not None:
            await PlainQueue(access, self._feed).give_back(self._got[0])

    def value(self, type: Any) -> Any:
        """What was got."""
        assert self._got is not None  # it was waited for
        item, codec = self._got
        return codec.decode(item.item, type)
