"""Opens, creates, configures, deletes, lists and follows the feeds of a tenant."""

import os
from collections.abc import Callable
from typing import Any, TypedDict, Unpack

from msgspec import Struct

from headrace.client.client import Client
from headrace.client.codec import JSON, Codec
from headrace.feeds.context import FeedContext, context_of, instance_name, snapshot
from headrace.feeds.feed import Feed, SortedFeed
from headrace.feeds.item_queue import ItemQueue
from headrace.feeds.queue_events import QueueEvents
from headrace.feeds.subscription import Subscription
from headrace.model.clock import Clock
from headrace.model.errors import Refused
from headrace.model.feed import DIRECTORY, FeedConfig, FeedName, FeedType
from headrace.model.limits import CONFIGURE_TRIES_MAX
from headrace.model.names import DEFAULT_TENANT, Queue
from headrace.model.results import FeedState
from headrace.model.times import Duration
from headrace.stores.contract.store import Store


class FeedListing(Struct, frozen=True):
    """A feed in the list of a tenant's feeds: its name and its configuration."""

    name: str
    config: FeedConfig

    @property
    def type(self) -> FeedType:
        """`feed`, `sorted` or `queue`."""
        return self.config.type


class FeedSettings(TypedDict, total=False):
    """The settings of a feed; `FeedConfig` explains each."""

    items_max: int
    items_keep_ms: int
    changes_keep_max: int
    changes_keep_ms: int
    changes_bytes_max: int


class Feeds:
    """Opens the feeds of a tenant on an open store. Belongs to the store's event loop; it does not close the store.

    `instance` is written with each change; the default is host, process and random characters.
    Items are written with `codec`, by default as JSON.
    """

    def __init__(
        self,
        store: Store,
        *,
        tenant: str = DEFAULT_TENANT,
        instance: str | None = None,
        codec: Codec = JSON,
        clock: Clock | None = None,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        client = Client(store, tenant=tenant, codec=codec, clock=clock, entropy=entropy)
        self._context = context_of(client, instance_name(instance))
        self._directory = FeedName(DIRECTORY, tenant)

    @classmethod
    def of(cls, client: Client, *, instance: str | None = None) -> "Feeds":
        """The feeds of a client's tenant, in the client's store."""
        return cls.from_context(context_of(client, instance_name(instance)))

    @classmethod
    def from_context(cls, context: FeedContext) -> "Feeds":
        """The feeds of a context."""
        feeds = cls.__new__(cls)
        feeds._context, feeds._directory = context, FeedName(DIRECTORY, context.tenant)
        return feeds

    @property
    def instance(self) -> str:
        """The name under which changes are made."""
        return self._context.instance

    async def feed(self, name: str, **settings: Unpack[FeedSettings]) -> Feed:
        """Open a feed in the order of publication, created if missing.

        The settings are applied to an existing feed. Raises `Refused` (`wrong_type`) if the name belongs to a
        sorted feed or an item queue.
        """
        return Feed(self._context, await self._open(name, "feed", settings))

    async def sorted(self, name: str, **settings: Unpack[FeedSettings]) -> SortedFeed:
        """Open a sorted feed, as `feed` does."""
        return SortedFeed(self._context, await self._open(name, "sorted", settings))

    async def item_queue(self, name: str, **settings: Unpack[FeedSettings]) -> ItemQueue:
        """Open an item queue, as `feed` does."""
        return ItemQueue(self._context, await self._open(name, "queue", settings))

    def queue_events(self, queue: str | Queue, *, shards: int = 1) -> QueueEvents:
        """The events of a job queue, to be followed like a feed; does not call the store."""
        target = queue if isinstance(queue, Queue) else Queue(queue, self._context.tenant, shards)
        return QueueEvents(self._context.store, target)

    async def create(self, name: str, type: FeedType = "feed", **settings: Unpack[FeedSettings]) -> FeedConfig:
        """Create a feed; raises `Refused` (`feed_exists`) if it exists."""
        store, instance = self._context.store, self._context.instance
        return await store.feeds.create(self._context.name(name), type, _set(settings), instance=instance)

    async def configure(self, name: str, *, version: int | None = None, **settings: Unpack[FeedSettings]) -> FeedConfig:
        """Change settings and return the new configuration.

        With `version`, raises `Refused` (`version_changed`) if the feed was changed since.
        """
        store, instance = self._context.store, self._context.instance
        feed = self._context.name(name)
        return await store.feeds.configure(feed, _set(settings), instance=instance, version=version)

    async def delete(self, name: str) -> None:
        """Delete a feed with its items; its subscriptions end. Raises `Refused` if it does not exist."""
        await self._context.store.feeds.delete(self._context.name(name), instance=self._context.instance)

    async def describe(self, name: str) -> FeedState | None:
        """Configuration and state of a feed; None if it does not exist."""
        return await self._context.store.feeds.describe(self._context.name(name))

    async def list(self) -> list[FeedListing]:
        """The tenant's feeds by name."""
        found = await snapshot(self._context.store, self._directory)
        return [FeedListing(item.id, JSON.decode(item.item, FeedConfig)) for item in found.rows]

    def subscribe(
        self, *, cursor: str | None = None, own: bool = True, heartbeat: Duration | None = None
    ) -> Subscription:
        """The tenant's feeds, then each change of them: `present`, `live`, `created`, `configured`, `deleted`.

        `id` of a change is the name of the feed, `item` its `FeedConfig`; otherwise as `Feed.subscribe`.
        """
        excluded = None if own else self._context.instance
        context = self._context
        return Subscription(
            context.store, self._directory, JSON, cursor=cursor, heartbeat=heartbeat, excluded_instance=excluded
        )

    async def _open(self, name: str, type: FeedType, settings: FeedSettings) -> FeedName:
        store, feed, wanted = self._context.store, self._context.name(name), _set(settings)
        for _ in range(CONFIGURE_TRIES_MAX):
            state = await store.feeds.describe(feed)
            try:
                if state is None:
                    await store.feeds.create(feed, type, wanted, instance=self.instance)
                elif state.config.type != type:
                    raise _wrong_type(feed, type, state.config.type)
                elif any(getattr(state.config, field, None) != value for field, value in wanted.items()):
                    await store.feeds.configure(feed, wanted, instance=self.instance, version=state.config.version)
            except Refused as error:
                if error.reason not in ("feed_exists", "unknown_feed", "version_changed"):
                    raise
            else:
                return feed
        raise Refused("busy", f"{str(feed)!r} was changed by others all the time while it was opened; try again")

    def __repr__(self) -> str:
        return f"<Feeds of {self._context.tenant!r} as {self.instance!r}>"


def _wrong_type(feed: FeedName, wanted: str, found: str) -> Refused:
    return Refused(
        "wrong_type",
        f"{str(feed)!r} was to be of type {wanted!r} and is of type {found!r}; open it as what it is, or choose another"
        " name",
    )


def _set(settings: Any) -> dict[str, object]:
    return dict(settings)
