"""Feeds: made, configured and deleted, and what changed in them."""

from collections.abc import Mapping
from typing import Protocol

from headrace.model.feed import FeedConfig, FeedCursor, FeedName, FeedType
from headrace.model.results import Changes, FeedState


class FeedStore(Protocol):
    """Feeds of a tenant. Every change is written to the feed's log in the same atomic step, under a gap-free `seq`,
    with the `instance` that made it; what comes and goes is written to the log of the tenant's directory as well.

    A directory (`feed.directory`) may be described, listed, followed and swept like a feed; writing to it is refused
    (`read_only`). It comes to be with the first feed of its tenant.
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
        """Make a feed with the configuration of its type and `changes` on top; refuses one that is there
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
        (`unknown_feed`) and, with `version`, when somebody else was faster (`version_changed`). A lower bound evicts
        with the next publication or sweep."""

    async def delete(self, feed: FeedName, *, instance: str, now_ms: int | None = None) -> None:
        """Delete a feed with its items, its log and its configuration, at once; refuses an unknown one."""

    async def describe(self, feed: FeedName) -> FeedState | None:
        """What the feed is and how it stands; None when there is no such feed."""

    async def changes(self, feed: FeedName, after: FeedCursor | None = None, *, limit: int = 1_000) -> Changes:
        """The changes behind a cursor, or the oldest that are kept; at most `limit` or 4 MiB of them, never below one
        while there is one. The same cursor gives the same changes again, until retention drops them: then it is a
        `gap`, and so it is when the store lost what the cursor has seen."""

    async def sweep(self, feed: FeedName, *, now_ms: int | None = None) -> int:
        """Evict items and drop changes that are beyond the feed's bounds, at most some thousand, and say how many.
        A directory without feeds and without changes is forgotten."""
