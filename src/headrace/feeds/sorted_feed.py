"""A sorted feed keeps items in the order that its callers choose."""

from collections.abc import Iterable, Sequence

from headrace.feeds.feed import FollowedFeed, with_ids
from headrace.feeds.publish import publish, publish_many, unknown_item, unknown_neighbour
from headrace.model.errors import Refused
from headrace.model.feed import FIRST, LAST, ItemPosition, Move, Publication


class SortedFeed(FollowedFeed):
    """Items at positions that the caller chooses. Ids are numbers by default: "1", "2", …

    A known id is edited, and moved to the new position.
    """

    async def append(self, item: object, *, id: str | None = None) -> str:
        """Put an item last and return its id."""
        return await self._put(item, id, LAST)

    async def prepend(self, item: object, *, id: str | None = None) -> str:
        """Put an item first and return its id."""
        return await self._put(item, id, FIRST)

    async def before(self, other: str, item: object, *, id: str | None = None) -> str:
        """Put an item before the item `other`; raises `Refused` (`unknown_neighbour`) if `other` does not exist."""
        return await self._put(item, id, ItemPosition("before", other))

    async def after(self, other: str, item: object, *, id: str | None = None) -> str:
        """Put an item after the item `other`; raises `Refused` (`unknown_neighbour`) if `other` does not exist."""
        return await self._put(item, id, ItemPosition("after", other))

    async def publish_many(self, items: Iterable[object], *, ids: Sequence[str] | None = None) -> list[str]:
        """Put any number of items last, in their order and in as few calls as possible, and return their ids."""
        encode = self._context.codec.encode
        publications = (Publication(encode(item), id) for item, id in with_ids(items, ids))
        return await publish_many(self._context, self.feed, publications)

    async def move(
        self, id: str, *, before: str | None = None, after: str | None = None, first: bool = False, last: bool = False
    ) -> bool:
        """Move an item to a position; False if it is there already, as next to itself.

        Raises `Refused`: `unknown_item`, or `unknown_neighbour` if the other item does not exist.
        """
        position = _position(before, after, first, last)
        store, instance = self._context.store, self._context.instance
        [answer] = await store.items.move(self.feed, [Move(id, position)], instance=instance)
        if answer.status == "unknown":
            raise unknown_item(self.feed, id)
        if answer.status == "unknown_neighbour":
            raise unknown_neighbour(self.feed, position.id or "")
        return answer.status == "moved"

    async def _put(self, item: object, id: str | None, position: ItemPosition) -> str:
        return await publish(self._context, self.feed, Publication(self._context.codec.encode(item), id, position))


def _position(before: str | None, after: str | None, first: bool, last: bool) -> ItemPosition:
    positions = [before is not None, after is not None, first, last]
    if sum(positions) != 1:
        raise Refused(
            "bad_position", f"a move goes to one position; found {sum(positions)}; give before, after, first or last"
        )
    if before is not None:
        return ItemPosition("before", before)
    if after is not None:
        return ItemPosition("after", after)
    return FIRST if first else LAST
