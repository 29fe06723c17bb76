"""A feed keeps items in the order of their publication, bounded by count and age."""

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.feeds.context import FeedContext, snapshot
from headrace.feeds.publish import publish, publish_many
from headrace.feeds.subscription import Subscription
from headrace.model.errors import Refused
from headrace.model.feed import FeedConfig, FeedName, Publication
from headrace.model.results import FeedState, ItemsSnapshot
from headrace.model.times import Duration


class AnyFeed:
    """A feed of a tenant, as `Feeds` opens it. Belongs to the store's event loop."""

    def __init__(self, context: FeedContext, feed: FeedName) -> None:
        self.feed = feed
        """Its name and tenant."""
        self._context = context

    @property
    def name(self) -> str:
        """Its name."""
        return self.feed.name

    async def ids(self) -> list[str]:
        """The ids of all items, in the order of the feed."""
        return [item.id for item in (await self._all()).rows]

    async def item(self, id: str, *, type: Any = Any) -> Any:
        """The item with this id, decoded as `type`; None if it does not exist."""
        [found] = await self._context.store.items.find(self.feed, [id])
        return None if found is None else self._context.codec.decode(found.item, type)

    async def items(self, *, type: Any = Any) -> dict[str, Any]:
        """All items by id, in the order of the feed, as they were at one instant."""
        decode = self._context.codec.decode
        return {item.id: decode(item.item, type) for item in (await self._all()).rows}

    async def has(self, id: str) -> bool:
        """Whether an item has this id."""
        [found] = await self._context.store.items.find(self.feed, [id])
        return found is not None

    async def count(self) -> int:
        """The number of items."""
        state = await self._state()
        if state.config.items_keep_ms and await self._context.store.feeds.sweep(self.feed):
            state = await self._state()  # expired items do not count
        return state.items

    async def total(self) -> int:
        """The number of publications and edits since the feed was created."""
        return (await self._state()).total

    async def config(self) -> FeedConfig:
        """Its configuration."""
        return (await self._state()).config

    async def retract(self, id: str) -> bool:
        """Remove an item; False if it does not exist."""
        [answer] = await self._context.store.items.retract(self.feed, [id], instance=self._context.instance)
        return answer.status == "retracted"

    async def _all(self) -> ItemsSnapshot:
        found = await snapshot(self._context.store, self.feed)
        if found.as_of is None:
            raise unknown_feed(self.feed)
        return found

    async def _state(self) -> FeedState:
        state = await self._context.store.feeds.describe(self.feed)
        if state is None:
            raise unknown_feed(self.feed)
        return state

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.feed)!r}>"


def unknown_feed(feed: FeedName) -> Refused:
    """The refusal of a feed that does not exist (any more)."""
    return Refused("unknown_feed", f"there is no feed {str(feed)!r} (any more); create it first")


class FollowedFeed(AnyFeed):
    """A feed with a log of changes, so that programs can subscribe to it."""

    async def edit(self, id: str, item: object) -> None:
        """Replace an item; raises `Refused` (`unknown_item`) if no item has this id."""
        publication = Publication(self._context.codec.encode(item), id, edit=True)
        await publish(self._context, self.feed, publication)

    def subscribe(
        self, *, cursor: str | None = None, own: bool = True, heartbeat: Duration | None = None, type: Any = Any
    ) -> Subscription:
        """The items, then each change: `async for change in feed.subscribe():`; see `Subscription`.

        With the `cursor` of an earlier change, only the changes since. `own=False` leaves out changes by this instance.
        `heartbeat` ("15s") yields a `heartbeat` after this long without a change. Items are decoded as `type`.
        """
        context = self._context
        excluded = None if own else context.instance
        return Subscription(
            context.store,
            self.feed,
            context.codec,
            cursor=cursor,
            heartbeat=heartbeat,
            excluded_instance=excluded,
            type=type,
        )


class Feed(FollowedFeed):
    """Items in the order of their publication. Beyond `items_max` and `items_keep_ms` the oldest are evicted."""

    async def publish(self, item: object, *, id: str | None = None) -> str:
        """Publish an item and return its id, a fresh one by default. A known id is edited, and goes last."""
        return await publish(self._context, self.feed, self._publication(item, id))

    async def publish_many(self, items: Iterable[object], *, ids: Sequence[str] | None = None) -> list[str]:
        """Publish any number of items in their order, in as few calls as possible, and return their ids.

        If the store stops answering, `OutcomeUnknown` has the published ids as `known` and the others in doubt as
        `unknown`; it is safe to publish the latter again under their ids.
        """
        pairs = with_ids(items, ids)
        return await publish_many(self._context, self.feed, (self._publication(item, id) for item, id in pairs))

    def _publication(self, item: object, id: str | None) -> Publication:
        return Publication(self._context.codec.encode(item), self._context.fresh_id() if id is None else id)


def with_ids(items: Iterable[object], ids: Sequence[str] | None) -> list[tuple[object, str | None]]:
    """Each item with its id; None if the store draws it."""
    listed = list(items)
    if ids is None:
        return [(item, None) for item in listed]
    if len(ids) != len(listed):
        raise Refused("bad_id", f"{len(listed)} items and {len(ids)} ids were given; give each item an id, or none")
    return list(zip(listed, ids, strict=True))
