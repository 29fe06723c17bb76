"""What feeds of all types can do: show their items, count them, take one out."""

from typing import Any

from headrace.feeds.access import Access
from headrace.feeds.snapshot import snapshot
from headrace.model.errors import Refused
from headrace.model.feed import FeedConfig, FeedName
from headrace.model.results import FeedState, Items


class AnyFeed:
    """A feed of a tenant, as `Feeds` opens it. Belongs to the store's event loop."""

    def __init__(self, access: Access, feed: FeedName) -> None:
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

    async def _all(self) -> Items:
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
