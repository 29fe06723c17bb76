"""Items: what a feed holds, in its order."""

from collections.abc import Sequence
from typing import Protocol

from headrace.model.feed import FeedName, Item, Move, Publication
from headrace.model.results import ItemsSnapshot as Page
from headrace.model.results import Moved, Published, Retracted


class Items(Protocol):
    """Items of a feed. Every call is one atomic step, whose parts happen in the order given; it refuses an unknown feed
    (`unknown_feed`) and what a feed of this type cannot do (`wrong_type`).

    Items that are over their age are not shown, whether they were swept or not.
    """

    async def publish(
        self, feed: FeedName, publications: Sequence[Publication], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Published]:
        """Put items into a feed, at most 1,000, and answer in their order.

        A known id is edited: in a feed it goes last, in a sorted feed to the place that is named (`moved` follows
        `edited` if that is another place), in a plain queue it is refused. When something new was published, a feed
        then evicts its oldest items beyond its bounds.
        """

    async def retract(
        self, feed: FeedName, ids: Sequence[str], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Retracted]:
        """Take items out, at most 1,000."""

    async def move(
        self, feed: FeedName, moves: Sequence[Move], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Moved]:
        """Put items of a sorted feed elsewhere, at most 1,000; the cost does not grow with the feed."""

    async def take(self, feed: FeedName, limit: int = 1, *, now_ms: int | None = None) -> Sequence[Item]:
        """Take the first items out of a plain queue: each is handed out once, whoever asks at the same time. At most
        `limit` or 4 MiB of them, never below one while there is one."""

    async def find(self, feed: FeedName, ids: Sequence[str], *, now_ms: int | None = None) -> Sequence[Item | None]:
        """Items by id, None for an unknown one; at most 1,000. An unknown feed has none."""

    async def list(
        self, feed: FeedName, *, cursor: str | None = None, limit: int = 1_000, now_ms: int | None = None
    ) -> Page:
        """Items in the order of the feed, at most `limit` or 4 MiB, never below one while there is one; `cursor`
        continues. Pages with the same `as_of` belong together; an item that stays where it is is listed exactly
        once, in a sorted feed unless the last item of a page was moved before the next is asked for. An unknown feed
        is empty."""

    async def snapshot(self, feed: FeedName, *, now_ms: int | None = None) -> Page:
        """All items at one instant of the log, however many: the start of a subscription to a feed that never rests."""
