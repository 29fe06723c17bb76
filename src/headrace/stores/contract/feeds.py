"""Feeds: creates, configures and deletes them, reads their logs of changes, and keeps their items in order."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.model.feed import FeedConfig, FeedCursor, FeedName, FeedType, Item, Move, Publication
from headrace.model.results import Changes, FeedState, Moved, Published, Retracted
from headrace.model.results import ItemsSnapshot as Page


class FeedStore(Protocol):
    """Feeds of a tenant. Every change is written to the feed's log in the same atomic step, under a gap-free `seq`,
    with the `instance` that made it; creation, configuration and deletion go to the log of the tenant's directory, too.

    A directory (`feed.directory`) may be described, listed, followed and swept like a feed; writing to it is refused
    (`read_only`). It is created with the first feed of its tenant.
    """

    async def create(
        self,
        feed: FeedName,
        type: FeedType = "feed",
        changes: Mapping[str, object] | None = None,
        *,
        instance: str,
        now_ms: int | None = None,
    ) -> FeedConfig:
        """Create a feed with the configuration of its type and `changes` on top; refuses an existing one
        (`feed_exists`)."""

    async def configure(
        self,
        feed: FeedName,
        changes: Mapping[str, object],
        *,
        instance: str,
        version: int | None = None,
        now_ms: int | None = None,
    ) -> FeedConfig:
        """Change settings and return the new configuration, its version one higher. Refuses an unknown feed
        (`unknown_feed`) and, with `version`, after another change (`version_changed`). A lower bound evicts with
        the next publication or sweep."""

    async def delete(self, feed: FeedName, *, instance: str, now_ms: int | None = None) -> None:
        """Delete a feed with its items, its log and its configuration, at once; refuses an unknown one."""

    async def describe(self, feed: FeedName) -> FeedState | None:
        """The configuration and counters of the feed; None if it does not exist."""

    async def changes(self, feed: FeedName, after: FeedCursor | None = None, *, limit: int = 1_000) -> Changes:
        """The changes after a cursor, or the oldest ones; at most `limit` or 4 MiB of them, at least one while there is
        one. The same cursor gives the same changes again, until retention drops them: then, and after the store lost
        changes that the cursor has seen, the answer is a `gap`."""

    async def sweep(self, feed: FeedName, *, now_ms: int | None = None) -> int:
        """Evict items and drop changes beyond the feed's bounds, at most some thousand, and return how many. A
        directory without feeds and changes is dropped."""


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
        `edited` if that is another position), in an item queue it is refused. When something new was published, a feed
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
        """Take the first items out of an item queue: each item goes to one of the concurrent callers. At most `limit`
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
