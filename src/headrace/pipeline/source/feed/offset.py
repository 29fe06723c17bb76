"""How far a stream has read the log of each feed, as Spark keeps it in a checkpoint."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from headrace.model.feed import FeedCursor, FeedName
from headrace.pipeline.source.checkpoint import VERSION, read_offset

OLDEST = 0
"""The epoch of a place before the oldest change that was kept, where there was none to look at. Epochs begin with 1."""


class FeedSpan(Struct, frozen=True):
    """The changes of a feed behind `after` up to the seq `upto`."""

    feed: FeedName
    after: FeedCursor
    upto: int

    @property
    def count(self) -> int:
        """How many they are; a log has no gaps."""
        return self.upto - self.after.seq


class FeedOffset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a batch ends, which is where the next one begins."""

    v: int = VERSION
    feeds: dict[str, str]
    """The cursor of each feed by `tenant/feed`; empty while nothing of it was read."""
    jumps: dict[str, str] = {}
    """Where this batch begins in a feed, when that is not where the last one ended: nothing of it was read before, or
    something was lost. Kept, so that the batch reads the same when it is run again."""
    skipped: int = 0
    """Changes that were dropped before they were read, since the beginning."""
    lost: int = 0
    """Changes that were read and that the store no longer knows, since the beginning."""

    @staticmethod
    def parse(told: Mapping[str, Any]) -> "FeedOffset":
        """The offset that Spark has kept; `BadConfig` when it is none of ours."""
        return read_offset(told, FeedOffset)

    def told(self) -> dict[str, Any]:
        """What Spark is to keep."""
        told: dict[str, Any] = msgspec.to_builtins(self)
        return told

    def spans(self, before: "FeedOffset") -> list[FeedSpan]:
        """What the batch that ends here reads, when the last one ended with `before`."""
        found = []
        for name, end in self.feeds.items():
            begin = self.jumps.get(name, before.feeds.get(name, ""))
            if begin and end:
                found.append(FeedSpan(named(name), FeedCursor.parse(begin), FeedCursor.parse(end).seq))
        return [span for span in found if span.count > 0]


def named(name: str) -> FeedName:
    """The feed that an offset names."""
    tenant, _, feed = name.partition("/")
    return FeedName(feed, tenant)
