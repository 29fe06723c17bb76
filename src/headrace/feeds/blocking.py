"""The feeds of a tenant for programs without an event loop: the same verbs without await."""

from collections.abc import Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from headrace.client.blocking import BlockingClient, run_on
from headrace.client.client import Client
from headrace.client.codec import JSON, Codec
from headrace.feeds.access import Access, Instance, access_of
from headrace.feeds.blocking_feed import BlockingFeed, BlockingPlainQueue, BlockingSortedFeed
from headrace.feeds.blocking_subscription import BlockingSubscription
from headrace.feeds.feeds import Feeds
from headrace.feeds.listing import Listing, Settings
from headrace.feeds.stream import Stream
from headrace.model.feed import FeedConfig, FeedType
from headrace.model.names import DEFAULT_TENANT, Queue
from headrace.model.results import FeedState
from headrace.model.times import Duration

T = TypeVar("T")


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

    def feed(self, name: str, **settings: Unpack[Settings]) -> BlockingFeed:
        """Open a feed in the order of publication, made when missing; see `Feeds.feed`."""
        return BlockingFeed(self, self._ask(lambda feeds: feeds.feed(name, **settings)).feed)

    def sorted(self, name: str, **settings: Unpack[Settings]) -> BlockingSortedFeed:
        """Open a sorted feed, as `feed` does."""
        return BlockingSortedFeed(self, self._ask(lambda feeds: feeds.sorted(name, **settings)).feed)

    def plain(self, name: str, **settings: Unpack[Settings]) -> BlockingPlainQueue:
        """Open a plain queue, as `feed` does."""
        return BlockingPlainQueue(self, self._ask(lambda feeds: feeds.plain(name, **settings)).feed)

    def queue(self, queue: str | Queue, *, shards: int = 1) -> "BlockingQueueEvents":
        """The events of a job queue, to be followed like a feed; looks at nothing."""
        which = queue if isinstance(queue, Queue) else Queue(queue, self._client.maker.tenant, shards)
        return BlockingQueueEvents(self, which)

    def create(self, name: str, type: FeedType = "feed", **settings: Unpack[Settings]) -> FeedConfig:
        """Make a feed; raises `Refused` (`feed_exists`) when there is one of this name."""
        return self._ask(lambda feeds: feeds.create(name, type, **settings))

    def configure(self, name: str, *, version: int | None = None, **settings: Unpack[Settings]) -> FeedConfig:
        """Change settings and return the new configuration; see `Feeds.configure`."""
        return self._ask(lambda feeds: feeds.configure(name, version=version, **settings))

    def delete(self, name: str) -> None:
        """Delete a feed with all that is in it; its subscriptions end. Raises `Refused` when there is none."""
        return self._ask(lambda feeds: feeds.delete(name))

    def describe(self, name: str) -> FeedState | None:
        """What a feed is and how it stands; None when there is none of this name."""
        return self._ask(lambda feeds: feeds.describe(name))

    def list(self) -> list[Listing]:
        """The tenant's feeds by name."""
        return self._ask(lambda feeds: feeds.list())

    def subscribe(
        self, *, cursor: str | None = None, own: bool = True, heartbeat: Duration | None = None
    ) -> BlockingSubscription:
        """The tenant's feeds, then how they come, change and go; see `Feeds.subscribe`."""
        return BlockingSubscription(self, partial(_directory, own=own, heartbeat=heartbeat), cursor)

    def run(self, ask: Callable[[Access], Coroutine[Any, Any, T]], *, patient: bool = False) -> T:
        """Have something asked on the background's loop, and return the answer; see `run_on`."""

        async def asked(client: Client) -> T:
            return await ask(access_of(client, self.instance))

        return run_on(self._client, asked, patient=patient)

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


def _directory(access: Access, cursor: str | None, *, own: bool, heartbeat: Duration | None) -> Stream:
    return Feeds.with_access(access).subscribe(cursor=cursor, own=own, heartbeat=heartbeat)


def _queue(access: Access, cursor: str | None, *, queue: Queue, beginning: bool, heartbeat: Duration | None) -> Stream:
    return Feeds.with_access(access).queue(queue).subscribe(cursor=cursor, beginning=beginning, heartbeat=heartbeat)


def _remade(client: BlockingClient, instance: Instance) -> BlockingFeeds:
    return BlockingFeeds.of(client, instance)
