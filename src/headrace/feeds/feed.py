"""A feed: items in the order of their publication, bounded by count and age."""

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.feeds.any_feed import AnyFeed
from headrace.feeds.publishing import publish, publish_many
from headrace.feeds.subscription import Subscription
from headrace.model.errors import Refused
from headrace.model.feed import Publication
from headrace.model.times import Duration


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
