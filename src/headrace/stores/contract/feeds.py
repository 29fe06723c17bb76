"""Feeds: creates, configures and deletes them, and reads their logs of changes."""

from collections.abc import Mapping
from typing import Protocol

from headrace.model.feed import FeedConfig, FeedCursor, FeedName, FeedType
from headrace.model.results import Changes, FeedState


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
