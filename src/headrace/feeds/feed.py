"""A feed: items in the order of their publication, bounded by count and age."""

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

    def __init__(self, access: FeedContext, feed: FeedName) -> None:
        self.feed = feed
        """Its name and tenant."""
        self._access = access

    @property
    def name(self) -> str:
        """Its name."""
        return self.feed.name

    async def ids(self) -> list[str]:
        """The ids of all items, in the order of the feed."""
        return [item.id for item in (await self._all()).rows]

    async def item(self, id: str, *, type: Any = Any) -> Any:
        """The item of an id, read as `type`; None when there is no such item."""
        [found] = await self._access.store.items.find(self.feed, [id])
        return None if found is None else self._access.codec.decode(found.item, type)

    async def items(self, *, type: Any = Any) -> dict[str, Any]:
        """All items by id, in the order of the feed, as they were at one instant."""
        decode = self._access.codec.decode
        return {item.id: decode(item.item, type) for item in (await self._all()).rows}

    async def has(self, id: str) -> bool:
        """Whether there is an item of this id."""
        [found] = await self._access.store.items.find(self.feed, [id])
        return found is not None

    async def count(self) -> int:
        """How many items there are."""
        state = await self._state()
        if state.config.items_keep_ms and await self._access.store.feeds.sweep(self.feed):
            state = await self._state()  # those that are over their age are not shown either
        return state.items

    async def total(self) -> int:
        """How many items were published and edited, ever."""
        return (await self._state()).total

    async def config(self) -> FeedConfig:
        """Its configuration."""
        return (await self._state()).config

    async def retract(self, id: str) -> bool:
        """Take an item out; False when there is no such item."""
        [answer] = await self._access.store.items.retract(self.feed, [id], instance=self._access.instance)
        return answer.status == "retracted"

    async def _all(self) -> ItemsSnapshot:
        found = await snapshot(self._access.store, self.feed)
        if found.as_of is None:
            raise unknown_feed(self.feed)
        return found

    async def _state(self) -> FeedState:
        state = await self._access.store.feeds.describe(self.feed)
        if state is None:
            raise unknown_feed(self.feed)
        return state

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.feed)!r}>"


def unknown_feed(feed: FeedName) -> Refused:
    """The refusal of a feed that is not there (any more)."""
    return Refused("unknown_feed", f"there is no feed {str(feed)!r} (any more); create it first")


class FollowedFeed(AnyFeed):
    """A feed whose changes are kept, so that it can be subscribed to."""

    async def edit(self, id: str, item: object) -> None:
        """Replace an item; raises `Refused` (`unknown_item`) when there is none of this id."""
        publication = Publication(self._access.codec.encode(item), id, edit=True)
        await publish(self._access, self.feed, publication)

    def subscribe(
        self, *, cursor: str | None = None, own: bool = True, heartbeat: Duration | None = None, type: Any = Any
    ) -> Subscription:
        """What is there, then what changes: `async for change in feed.subscribe():`; see `Subscription`.

        `cursor` is that of an earlier change: only what changed since is told. `own=False` leaves out what this
        instance does. `heartbeat` ("15s") has a change of that event told whenever nothing came for so long. Items are
        read as `type`.
        """
        access = self._access
        left_out = None if own else access.instance
        return Subscription(
            access.store, self.feed, access.codec, cursor=cursor, heartbeat=heartbeat, left_out=left_out, type=type
        )


class Feed(FollowedFeed):
    """Items in the order of their publication. Beyond `items_max` and `items_keep_ms` the oldest are evicted."""

    async def publish(self, item: object, *, id: str | None = None) -> str:
        """Publish an item and return its id, a fresh one when none is given. A known id is edited, and goes last."""
        return await publish(self._access, self.feed, self._publication(item, id))

    async def publish_many(self, items: Iterable[object], *, ids: Sequence[str] | None = None) -> list[str]:
        """Publish any number of items in their order, in as few calls as possible, and return their ids.

        When the store does not answer in the midst of it, `OutcomeUnknown` has the ids that are in as `known`, and
        those in doubt as `unknown`; to publish these again under their ids does no harm.
        """
        given = with_ids(items, ids)
        return await publish_many(self._access, self.feed, (self._publication(item, id) for item, id in given))

    def _publication(self, item: object, id: str | None) -> Publication:
        return Publication(self._access.codec.encode(item), self._access.fresh_id() if id is None else id)


def with_ids(items: Iterable[object], ids: Sequence[str] | None) -> list[tuple[object, str | None]]:
    """Each item with its id, None where it is to be drawn."""
    listed = list(items)
    if ids is None:
        return [(item, None) for item in listed]
    if len(ids) != len(listed):
        raise Refused("bad_id", f"{len(listed)} items and {len(ids)} ids were given; give each item an id, or none")
    return list(zip(listed, ids, strict=True))
