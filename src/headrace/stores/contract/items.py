"""Items of a feed, in its order."""

from collections.abc import Sequence
from typing import Protocol

from headrace.model.feed import FeedName, Item, Move, Publication
from headrace.model.results import ItemsSnapshot as Page
from headrace.model.results import Moved, Published, Retracted


class Items(Protocol):
    """Items of a feed. Every call is one atomic step, which handles its arguments in order; it refuses an unknown feed
    (`unknown_feed`) and operations that a feed of this type does not have (`wrong_type`).

    Items beyond their age are not shown, whether they were swept or not.
    """

    async def publish(
        self, feed: FeedName, publications: Sequence[Publication], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Published]:
        """Put items into a feed, at most 1,000, and answer in their order.

        A known id is edited: in a feed it goes last, in a sorted feed to the given position (`moved` follows
        `edited` if that is another position), in a plain queue it is refused. When something new was published, a feed
        then evicts its oldest items beyond its bounds.
        """

    async def retract(
        self, feed: FeedName, ids: Sequence[str], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Retracted]:
        """Remove items, at most 1,000."""

    async def move(
        self, feed: FeedName, moves: Sequence[Move], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Moved]:
        """Move items of a sorted feed to other positions, at most 1,000; the cost does not grow with the feed."""

    async def take(self, feed: FeedName, limit: int = 1, *, now_ms: int | None = None) -> Sequence[Item]:
        """Take the first items out of a plain queue: each item goes to one of the concurrent callers. At most `limit`
        or 4 MiB of them, at least one while there is one."""

    async def find(self, feed: FeedName, ids: Sequence[str], *, now_ms: int | None = None) -> Sequence[Item | None]:
        """Items by id, None for an unknown one; at most 1,000. An unknown feed has none."""

    async def list(
        self, feed: FeedName, *, cursor: str | None = None, limit: int = 1_000, now_ms: int | None = None
    ) -> Page:
        """Items in the order of the feed, at most `limit` or 4 MiB, at least one while there is one; `cursor`
        continues. Pages with the same `as_of` are of one instant; an item that does not move is listed exactly once, in
        a sorted feed unless the last item of a page moves before the next page is read. An unknown feed is empty."""

    async def snapshot(self, feed: FeedName, *, now_ms: int | None = None) -> Page:
        """All items at one instant of the log: the start of a subscription to a feed that changes all the time."""
