"""The feeds of a tenant for programs without an event loop: the same verbs without await."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from headrace.client.blocking import BlockingClient, run_on
from headrace.client.client import Client
from headrace.client.codec import JSON, Codec
from headrace.feeds.change import Change
from headrace.feeds.context import FeedContext, Instance, context_of
from headrace.feeds.feed import AnyFeed, Feed, FollowedFeed
from headrace.feeds.feeds import FeedListing, Feeds, FeedSettings
from headrace.feeds.item_queue import ItemQueue
from headrace.feeds.sorted_feed import SortedFeed
from headrace.feeds.subscription import ChangeStream
from headrace.model.clock import monotonic_ms
from headrace.model.feed import FeedConfig, FeedName, FeedType, Item
from headrace.model.names import DEFAULT_TENANT, Queue
from headrace.model.results import FeedState
from headrace.model.times import Duration, duration_ms

Making = Callable[[FeedContext, str | None], ChangeStream]
"""Makes the stream from a cursor; can be pickled."""


class BlockingSubscription:
    """A `Subscription` for one thread: `for change in subscription`, which waits for the next one.

    Changes are fetched in batches. It goes on after a fork and after Ctrl-C, where it was; in the child of a fork as
    well. A pickle of it goes on behind the last change that was handed out.
    """

    def __init__(self, feeds: "BlockingFeeds", make: Making, cursor: str | None = None) -> None:
        self._feeds = feeds
        self._make = make
        self._cursor = cursor
        self._stream: ChangeStream | None = None
        self._fetched: deque[Change] = deque()
        self._is_over = False

    @property
    def cursor(self) -> str | None:
        """The text to resume behind the last change that was handed out; None while the first items are told."""
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
        """All changes that are at hand, at least one and at most 1,000; waits for the first. Empty at the end of a feed
        that was deleted."""
        first = next(self, None)
        changes = [] if first is None else [first]
        while self._fetched:
            changes.append(next(self))
        return changes

    def close(self) -> None:
        """Stop; whoever asks afterwards is at the end."""
        self._is_over = True
        self._fetched.clear()
        if self._stream is not None:
            self._feeds.run(self._close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockingSubscription, (self._feeds, self._make, self._cursor)

    async def _fetch(self, access: FeedContext) -> None:
        if self._fetched:
            return  # brought by a call that Ctrl-C has interrupted
        if self._stream is None:
            self._stream = self._make(access, self._cursor)
        self._stream.move_to(access.store)
        batch = await self._stream.batch()
        # Kept here and not returned: the thread may be interrupted before it has seen the answer.
        self._fetched.extend(batch)
        self._is_over = not batch

    async def _close(self, access: FeedContext) -> None:
        if self._stream is not None:
            self._stream.move_to(access.store)
            await self._stream.aclose()


T = TypeVar("T")
F = TypeVar("F", bound=AnyFeed)
Followed = TypeVar("Followed", bound=FollowedFeed)


class BlockingAnyFeed(Generic[F]):
    """A feed for threads: every method waits for its answer, and says what its blocked job in `AnyFeed` says."""

    blocked_job: type[F]
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
        return self._feeds.run(lambda access: ask(self.blocked_job(access, self.feed)))

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
    access: FeedContext, cursor: str | None, *, feed: FeedName, own: bool, heartbeat: Duration | None, type: Any
) -> ChangeStream:
    return FollowedFeed(access, feed).subscribe(cursor=cursor, own=own, heartbeat=heartbeat, type=type)


class BlockingFeed(BlockingFollowedFeed[Feed]):
    """A `Feed` for threads."""

    blocked_job = Feed

    def publish(self, item: object, *, id: str | None = None) -> str:
        """Publish an item and return its id; a known id is edited, and goes last."""
        return self._ask(lambda feed: feed.publish(item, id=id))

    def publish_many(self, items: Iterable[object], *, ids: Sequence[str] | None = None) -> list[str]:
        """Publish any number of items in their order; see `Feed.publish_many`."""
        listed = list(items)  # on the caller's own thread
        return self._ask(lambda feed: feed.publish_many(listed, ids=ids))


class BlockingSortedFeed(BlockingFollowedFeed[SortedFeed]):
    """A `SortedFeed` for threads."""

    blocked_job = SortedFeed

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


class BlockingItemQueue(BlockingAnyFeed[ItemQueue]):
    """A `ItemQueue` for threads."""

    blocked_job = ItemQueue

    def put(self, item: object, *, high: bool = False) -> str:
        """Put an item last and return its id; with `high` first, next to be got."""
        return self._ask(lambda queue: queue.put(item, high=high))

    def put_many(self, items: Iterable[object], *, high: bool = False) -> list[str]:
        """Put any number of items in their order; see `ItemQueue.put_many`."""
        listed = list(items)
        return self._ask(lambda queue: queue.put_many(listed, high=high))

    def get(self, timeout: Duration | None = None, *, type: Any = Any) -> Any:
        """Take the next item out, waiting for one if need be; see `ItemQueue.get`. Ctrl-C leaves it to the next."""
        until_ms = None if timeout is None else monotonic_ms() + duration_ms("timeout", timeout)
        getting = _Getting(self.feed, until_ms)
        try:
            self._feeds.run(getting.get, interruptible=True)
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

    async def get(self, access: FeedContext) -> None:
        """Get an item; begun anew after a fork elsewhere in the program, which breaks it off."""
        queue = ItemQueue(access, self._feed)
        left = None if self._until_ms is None else max(self._until_ms - monotonic_ms(), 0) / 1_000
        self._is_over.clear()
        try:
            self._got = await queue.take(left), access.codec
        except asyncio.CancelledError:
            await queue.settled()  # the store is closed next
            raise
        finally:
            self._is_over.set()

    async def give_back(self, access: FeedContext) -> None:
        """Put what was got back to where it was."""
        await self._is_over.wait()
        if self._got is not None:
            await ItemQueue(access, self._feed).give_back(self._got[0])

    def value(self, type: Any) -> Any:
        """What was got."""
        assert self._got is not None  # it was waited for
        item, codec = self._got
        return codec.decode(item.item, type)


class BlockingFeeds:
    """`Feeds` for threads: every method waits for its answer. One may be shared by any number of threads.

    The store is opened with the first call, as by a `BlockingClient`; it may be carried over a fork and pickled: the
    other process opens the store anew, and is another instance unless one was given. Use `with`, or `close`.
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
        """Who makes the changes; another one in the child of a fork."""
        return self._instance.name

    def feed(self, name: str, **settings: Unpack[FeedSettings]) -> BlockingFeed:
        """Open a feed in the order of publication, made when missing; see `Feeds.feed`."""
        return BlockingFeed(self, self._ask(lambda feeds: feeds.feed(name, **settings)).feed)

    def sorted(self, name: str, **settings: Unpack[FeedSettings]) -> BlockingSortedFeed:
        """Open a sorted feed, as `feed` does."""
        return BlockingSortedFeed(self, self._ask(lambda feeds: feeds.sorted(name, **settings)).feed)

    def plain(self, name: str, **settings: Unpack[FeedSettings]) -> BlockingItemQueue:
        """Open a plain queue, as `feed` does."""
        return BlockingItemQueue(self, self._ask(lambda feeds: feeds.plain(name, **settings)).feed)

    def queue(self, queue: str | Queue, *, shards: int = 1) -> "BlockingQueueEvents":
        """The events of a job queue, to be followed like a feed; looks at nothing."""
        which = queue if isinstance(queue, Queue) else Queue(queue, self._client.maker.tenant, shards)
        return BlockingQueueEvents(self, which)

    def create(self, name: str, type: FeedType = "feed", **settings: Unpack[FeedSettings]) -> FeedConfig:
        """Make a feed; raises `Refused` (`feed_exists`) when there is one of this name."""
        return self._ask(lambda feeds: feeds.create(name, type, **settings))

    def configure(self, name: str, *, version: int | None = None, **settings: Unpack[FeedSettings]) -> FeedConfig:
        """Change settings and return the new configuration; see `Feeds.configure`."""
        return self._ask(lambda feeds: feeds.configure(name, version=version, **settings))

    def delete(self, name: str) -> None:
        """Delete a feed with all that is in it; its subscriptions end. Raises `Refused` when there is none."""
        return self._ask(lambda feeds: feeds.delete(name))

    def describe(self, name: str) -> FeedState | None:
        """What a feed is and how it stands; None when there is none of this name."""
        return self._ask(lambda feeds: feeds.describe(name))

    def list(self) -> list[FeedListing]:
        """The tenant's feeds by name."""
        return self._ask(lambda feeds: feeds.list())

    def subscribe(
        self, *, cursor: str | None = None, own: bool = True, heartbeat: Duration | None = None
    ) -> BlockingSubscription:
        """The tenant's feeds, then how they come, change and go; see `Feeds.subscribe`."""
        return BlockingSubscription(self, partial(_directory, own=own, heartbeat=heartbeat), cursor)

    def run(self, ask: Callable[[FeedContext], Coroutine[Any, Any, T]], *, interruptible: bool = False) -> T:
        """Have something asked on the background's loop, and return the answer; see `run_on`."""

        async def asked(client: Client) -> T:
            return await ask(context_of(client, self.instance))

        return run_on(self._client, asked, interruptible=interruptible)

    def close(self) -> None:
        """Let go of the store; closing twice is fine, any other call afterwards raises `StoreUnavailable`."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self._client, self._instance)

    def _ask(self, ask: Callable[[Feeds], Coroutine[Any, Any, T]]) -> T:
        return self.run(lambda access: ask(Feeds.with_access(access)))


class BlockingQueueEvents:
    """`QueueEvents` for threads."""

    def __init__(self, feeds: BlockingFeeds, queue: Queue) -> None:
        self.queue = queue
        self._feeds = feeds

    def subscribe(
        self, *, cursor: str | None = None, beginning: bool = False, heartbeat: Duration | None = None
    ) -> BlockingSubscription:
        """What happens from now on, from the beginning, or behind a cursor; see `QueueEvents.subscribe`."""
        make = partial(_queue, queue=self.queue, beginning=beginning, heartbeat=heartbeat)
        return BlockingSubscription(self._feeds, make, cursor)


def _directory(access: FeedContext, cursor: str | None, *, own: bool, heartbeat: Duration | None) -> ChangeStream:
    return Feeds.with_access(access).subscribe(cursor=cursor, own=own, heartbeat=heartbeat)


def _queue(
    access: FeedContext, cursor: str | None, *, queue: Queue, beginning: bool, heartbeat: Duration | None
) -> ChangeStream:
    return Feeds.with_access(access).queue(queue).subscribe(cursor=cursor, beginning=beginning, heartbeat=heartbeat)


def _remade(client: BlockingClient, instance: Instance) -> BlockingFeeds:
    return BlockingFeeds.of(client, instance)
