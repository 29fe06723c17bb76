"""Feeds for programs without an event loop: the methods of `Feeds`, each of which waits for its answer."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Generic, Self, TypeVar, Unpack

from headrace.client.blocking import BlockingClient, Closeable, run_on
from headrace.client.client import Client
from headrace.client.codec import JSON, Codec
from headrace.feeds.change import Change
from headrace.feeds.context import FeedContext, Instance, context_of
from headrace.feeds.feed import AnyFeed, Feed, FollowedFeed, SortedFeed
from headrace.feeds.feeds import FeedListing, Feeds, FeedSettings
from headrace.feeds.item_queue import ItemQueue
from headrace.feeds.subscription import ChangeStream
from headrace.model.clock import monotonic_ms
from headrace.model.feed import FeedConfig, FeedName, FeedType, Item
from headrace.model.names import DEFAULT_TENANT, Queue
from headrace.model.results import FeedState
from headrace.model.times import Duration, duration_ms

StreamFactory = Callable[[FeedContext, str | None], ChangeStream]
"""Opens the stream at a cursor; can be pickled."""


class BlockingSubscription(Closeable):
    """A `Subscription` for one thread: `for change in subscription`, which waits for the next one.

    Changes are fetched in batches. After Ctrl-C or a fork it continues where it was, also in the child. A pickle of it
    continues after the last change that was returned.
    """

    def __init__(self, feeds: "BlockingFeeds", open_stream: StreamFactory, cursor: str | None = None) -> None:
        self._feeds = feeds
        self._open_stream = open_stream
        self._cursor = cursor
        self._stream: ChangeStream | None = None
        self._fetched: deque[Change] = deque()
        self._is_over = False

    @property
    def cursor(self) -> str | None:
        """The text to resume after the last returned change; None while the first items come."""
        return self._cursor

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        if not self._fetched and not self._is_over:
            self._feeds.run(self._fetch, interruptible=True)
        if not self._fetched:
            raise StopIteration
        change = self._fetched.popleft()
        self._cursor = change.cursor
        return change

    def batch(self) -> list[Change]:
        """The buffered changes, at least one and at most 1,000; waits for the first. Empty at the end of a deleted
        feed."""
        first = next(self, None)
        changes = [] if first is None else [first]
        while self._fetched:
            changes.append(next(self))
        return changes

    def close(self) -> None:
        """Stop; later reads are at the end."""
        self._is_over = True
        self._fetched.clear()
        if self._stream is not None:
            self._feeds.run(self._close)

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockingSubscription, (self._feeds, self._open_stream, self._cursor)

    async def _fetch(self, context: FeedContext) -> None:
        if self._fetched:
            return  # fetched by a call that Ctrl-C interrupted
        if self._stream is None:
            self._stream = self._open_stream(context, self._cursor)
        self._stream.move_to(context.store)
        batch = await self._stream.batch()
        # Kept here and not returned: Ctrl-C may interrupt the thread before it has the answer.
        self._fetched.extend(batch)
        self._is_over = not batch

    async def _close(self, context: FeedContext) -> None:
        if self._stream is not None:
            self._stream.move_to(context.store)
            await self._stream.aclose()


T = TypeVar("T")
F = TypeVar("F", bound=AnyFeed)
Followed = TypeVar("Followed", bound=FollowedFeed)


class BlockingAnyFeed(Generic[F]):
    """A feed for threads: every method waits for the answer of the same method of `AnyFeed`."""

    async_type: type[F]
    """The feed on the background's loop."""

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
        return self._call(lambda feed: feed.ids())

    def item(self, id: str, *, type: Any = Any) -> Any:
        """The item with this id, decoded as `type`; None if it does not exist."""
        return self._call(lambda feed: feed.item(id, type=type))

    def items(self, *, type: Any = Any) -> dict[str, Any]:
        """All items by id, in the order of the feed, as they were at one instant."""
        return self._call(lambda feed: feed.items(type=type))

    def has(self, id: str) -> bool:
        """Whether an item has this id."""
        return self._call(lambda feed: feed.has(id))

    def count(self) -> int:
        """The number of items."""
        return self._call(lambda feed: feed.count())

    def total(self) -> int:
        """The number of publications and edits since the feed was created."""
        return self._call(lambda feed: feed.total())

    def config(self) -> FeedConfig:
        """Its configuration."""
        return self._call(lambda feed: feed.config())

    def retract(self, id: str) -> bool:
        """Remove an item; False if it does not exist."""
        return self._call(lambda feed: feed.retract(id))

    def _call(self, method: Callable[[F], Coroutine[Any, Any, T]]) -> T:
        return self._feeds.run(lambda context: method(self.async_type(context, self.feed)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.feed)!r}>"


class BlockingFollowedFeed(BlockingAnyFeed[Followed]):
    """A feed for threads that can be subscribed to."""

    def edit(self, id: str, item: object) -> None:
        """Replace an item; raises `Refused` (`unknown_item`) if no item has this id."""
        return self._call(lambda feed: feed.edit(id, item))

    def subscribe(
        self, *, cursor: str | None = None, own: bool = True, heartbeat: Duration | None = None, type: Any = Any
    ) -> BlockingSubscription:
        """The items, then each change: `for change in feed.subscribe():`; see `Feed.subscribe`."""
        open_stream = partial(_feed_stream, feed=self.feed, own=own, heartbeat=heartbeat, type=type)
        return BlockingSubscription(self._feeds, open_stream, cursor)


def _feed_stream(
    context: FeedContext, cursor: str | None, *, feed: FeedName, own: bool, heartbeat: Duration | None, type: Any
) -> ChangeStream:
    return FollowedFeed(context, feed).subscribe(cursor=cursor, own=own, heartbeat=heartbeat, type=type)


class BlockingFeed(BlockingFollowedFeed[Feed]):
    """A `Feed` for threads."""

    async_type = Feed

    def publish(self, item: object, *, id: str | None = None) -> str:
        """Publish an item and return its id; a known id is edited, and goes last."""
        return self._call(lambda feed: feed.publish(item, id=id))

    def publish_many(self, items: Iterable[object], *, ids: Sequence[str] | None = None) -> list[str]:
        """Publish any number of items in their order; see `Feed.publish_many`."""
        materialized = list(items)  # on the caller's own thread
        return self._call(lambda feed: feed.publish_many(materialized, ids=ids))


class BlockingSortedFeed(BlockingFollowedFeed[SortedFeed]):
    """A `SortedFeed` for threads."""

    async_type = SortedFeed

    def append(self, item: object, *, id: str | None = None) -> str:
        """Put an item last and return its id."""
        return self._call(lambda feed: feed.append(item, id=id))

    def prepend(self, item: object, *, id: str | None = None) -> str:
        """Put an item first and return its id."""
        return self._call(lambda feed: feed.prepend(item, id=id))

    def before(self, other: str, item: object, *, id: str | None = None) -> str:
        """Put an item before the item `other`."""
        return self._call(lambda feed: feed.before(other, item, id=id))

    def after(self, other: str, item: object, *, id: str | None = None) -> str:
        """Put an item after the item `other`."""
        return self._call(lambda feed: feed.after(other, item, id=id))

    def publish_many(self, items: Iterable[object], *, ids: Sequence[str] | None = None) -> list[str]:
        """Put any number of items last, in their order; see `SortedFeed.publish_many`."""
        materialized = list(items)
        return self._call(lambda feed: feed.publish_many(materialized, ids=ids))

    def move(
        self, id: str, *, before: str | None = None, after: str | None = None, first: bool = False, last: bool = False
    ) -> bool:
        """Move an item; see `SortedFeed.move`."""
        return self._call(lambda feed: feed.move(id, before=before, after=after, first=first, last=last))


class BlockingItemQueue(BlockingAnyFeed[ItemQueue]):
    """An `ItemQueue` for threads."""

    async_type = ItemQueue

    def put(self, item: object, *, high: bool = False) -> str:
        """Put an item last and return its id; with `high` first, so that it is next."""
        return self._call(lambda queue: queue.put(item, high=high))

    def put_many(self, items: Iterable[object], *, high: bool = False) -> list[str]:
        """Put any number of items in their order; see `ItemQueue.put_many`."""
        materialized = list(items)
        return self._call(lambda queue: queue.put_many(materialized, high=high))

    def get(self, timeout: Duration | None = None, *, type: Any = Any) -> Any:
        """Take the next item; see `ItemQueue.get`. After Ctrl-C the next call gets the item."""
        until_ms = None if timeout is None else monotonic_ms() + duration_ms("timeout", timeout)
        call = _GetCall(self.feed, until_ms)
        try:
            self._feeds.run(call.get, interruptible=True)
        except Exception:
            raise
        except BaseException:
            self._feeds.run(call.give_back)  # an item may have come at the moment of the interruption
            raise
        return call.value(type)


class _GetCall:
    """One call of `get`; keeps its item until the thread has it."""

    def __init__(self, feed: FeedName, until_ms: int | None) -> None:
        self._feed = feed
        self._until_ms = until_ms
        self._is_over = asyncio.Event()
        self._is_over.set()
        self._got: tuple[Item, Codec] | None = None

    async def get(self, context: FeedContext) -> None:
        """Get an item; a fork elsewhere in the program cancels this and starts it again."""
        queue = ItemQueue(context, self._feed)
        left = None if self._until_ms is None else max(self._until_ms - monotonic_ms(), 0) / 1_000
        self._is_over.clear()
        try:
            self._got = await queue.take(left), context.codec
        except asyncio.CancelledError:
            await queue.settled()  # the store is closed next
            raise
        finally:
            self._is_over.set()

    async def give_back(self, context: FeedContext) -> None:
        """Put the item back to the front of the queue."""
        await self._is_over.wait()
        if self._got is not None:
            await ItemQueue(context, self._feed).give_back(self._got[0])

    def value(self, type: Any) -> Any:
        """The item, decoded."""
        assert self._got is not None  # set by `get`
        return self._got[1].decode(self._got[0].item, type)


class BlockingFeeds(Closeable):
    """`Feeds` for threads: every method waits for its answer. Any number of threads may share it.

    The first call opens the store. May be used after a fork and be pickled: the other process opens the store anew,
    and is another instance unless the name is fixed. Use `with`, or `close`.
    """

    def __init__(
        self, url: str, *, tenant: str = DEFAULT_TENANT, instance: str | None = None, codec: Codec = JSON
    ) -> None:
        self._client = BlockingClient(url, tenant=tenant, codec=codec)
        self._instance = Instance(instance)

    @classmethod
    def of(cls, client: BlockingClient, instance: Instance) -> "BlockingFeeds":
        """The feeds of a client's tenant, in the client's store."""
        feeds = cls.__new__(cls)
        feeds._client, feeds._instance = client, instance
        return feeds

    @property
    def instance(self) -> str:
        """The name under which changes are made; a new one in the child of a fork."""
        return self._instance.name

    def feed(self, name: str, **settings: Unpack[FeedSettings]) -> BlockingFeed:
        """Open a feed in the order of publication, created if missing; see `Feeds.feed`."""
        return BlockingFeed(self, self._call(lambda feeds: feeds.feed(name, **settings)).feed)

    def sorted(self, name: str, **settings: Unpack[FeedSettings]) -> BlockingSortedFeed:
        """Open a sorted feed, as `feed` does."""
        return BlockingSortedFeed(self, self._call(lambda feeds: feeds.sorted(name, **settings)).feed)

    def item_queue(self, name: str, **settings: Unpack[FeedSettings]) -> BlockingItemQueue:
        """Open an item queue, as `feed` does."""
        return BlockingItemQueue(self, self._call(lambda feeds: feeds.item_queue(name, **settings)).feed)

    def queue_events(self, queue: str | Queue, *, shards: int = 1) -> "BlockingQueueEvents":
        """The events of a job queue, to be followed like a feed; does not call the store."""
        target = queue if isinstance(queue, Queue) else Queue(queue, self._client.maker.tenant, shards)
        return BlockingQueueEvents(self, target)

    def create(self, name: str, type: FeedType = "feed", **settings: Unpack[FeedSettings]) -> FeedConfig:
        """Create a feed; raises `Refused` (`feed_exists`) if it exists."""
        return self._call(lambda feeds: feeds.create(name, type, **settings))

    def configure(self, name: str, *, version: int | None = None, **settings: Unpack[FeedSettings]) -> FeedConfig:
        """Change settings and return the new configuration; see `Feeds.configure`."""
        return self._call(lambda feeds: feeds.configure(name, version=version, **settings))

    def delete(self, name: str) -> None:
        """Delete a feed with its items; its subscriptions end. Raises `Refused` if it does not exist."""
        return self._call(lambda feeds: feeds.delete(name))

    def describe(self, name: str) -> FeedState | None:
        """Configuration and state of a feed; None if it does not exist."""
        return self._call(lambda feeds: feeds.describe(name))

    def list(self) -> list[FeedListing]:
        """The tenant's feeds by name."""
        return self._call(lambda feeds: feeds.list())

    def subscribe(
        self, *, cursor: str | None = None, own: bool = True, heartbeat: Duration | None = None
    ) -> BlockingSubscription:
        """The tenant's feeds, then each change of them; see `Feeds.subscribe`."""
        return BlockingSubscription(self, partial(_directory_stream, own=own, heartbeat=heartbeat), cursor)

    def run(self, function: Callable[[FeedContext], Coroutine[Any, Any, T]], *, interruptible: bool = False) -> T:
        """Run an async function on the background's loop; see `Background.run`."""

        async def call(client: Client) -> T:
            return await function(context_of(client, self.instance))

        return run_on(self._client, call, interruptible=interruptible)

    def close(self) -> None:
        """Release the store; closing twice is fine, any other call afterwards raises `StoreUnavailable`."""
        self._client.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockingFeeds.of, (self._client, self._instance)

    def _call(self, method: Callable[[Feeds], Coroutine[Any, Any, T]]) -> T:
        return self.run(lambda context: method(Feeds.from_context(context)))


class BlockingQueueEvents:
    """`QueueEvents` for threads."""

    def __init__(self, feeds: BlockingFeeds, queue: Queue) -> None:
        self.queue = queue
        self._feeds = feeds

    def subscribe(
        self, *, cursor: str | None = None, beginning: bool = False, heartbeat: Duration | None = None
    ) -> BlockingSubscription:
        """The events from now on, from the beginning, or behind a cursor; see `QueueEvents.subscribe`."""
        open_stream = partial(_queue_stream, queue=self.queue, beginning=beginning, heartbeat=heartbeat)
        return BlockingSubscription(self._feeds, open_stream, cursor)


def _directory_stream(
    context: FeedContext, cursor: str | None, *, own: bool, heartbeat: Duration | None
) -> ChangeStream:
    return Feeds.from_context(context).subscribe(cursor=cursor, own=own, heartbeat=heartbeat)


def _queue_stream(
    context: FeedContext, cursor: str | None, *, queue: Queue, beginning: bool, heartbeat: Duration | None
) -> ChangeStream:
    events = Feeds.from_context(context).queue_events(queue)
    return events.subscribe(cursor=cursor, beginning=beginning, heartbeat=heartbeat)
