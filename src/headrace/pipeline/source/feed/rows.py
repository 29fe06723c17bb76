"""Rows of feeds in Arrow: an item that is there, or a change."""

from collections.abc import Sequence

import pyarrow as pa

from headrace.model.feed import Changed, FeedCursor, FeedName, Item
from headrace.pipeline.source.building import built, instants, texts
from headrace.pipeline.source.schema import Table

PRESENT = "present"
"""The event of an item that is there."""
_BARE = ("retracted", "deleted")
"""Changes without an item."""


def of_items(table: Table, feed: FeedName, as_of: FeedCursor, items: Sequence[Item], first: int) -> pa.RecordBatch:
    """Items that follow each other in a feed, the first of them at position `first`."""
    count = len(items)
    return built(
        table,
        count,
        {
            "tenant": feed.tenant,
            "feed": feed.name,
            "birth": as_of.birth,
            "epoch": as_of.epoch,
            "seq": as_of.seq,
            "happened_at": lambda: instants([item.at_ms for item in items]),
            "event": PRESENT,
            "id": lambda: [item.id for item in items],
            "item": lambda: texts([item.item for item in items]),
            "position": lambda: list(range(first, first + count)),
        },
    )


def of_changes(table: Table, feed: FeedName, birth: str, changes: Sequence[Changed]) -> pa.RecordBatch:
    """Changes of a feed in order."""
    count = len(changes)
    return built(
        table,
        count,
        {
            "tenant": feed.tenant,
            "feed": feed.name,
            "birth": birth,
            "epoch": lambda: [each.epoch for each in changes],
            "seq": lambda: [each.seq for each in changes],
            "happened_at": lambda: instants([each.at_ms for each in changes]),
            "event": lambda: [each.event for each in changes],
            # What happens to the feed itself is about no item.
            "id": lambda: [each.id or None for each in changes],
            "item": lambda: texts([None if each.event in _BARE else each.item for each in changes]),
            "place": lambda: [None if each.position is None else each.position.where for each in changes],
            "neighbour": lambda: [None if each.position is None else each.position.id for each in changes],
            "reason": lambda: [each.reason for each in changes],
            "instance": lambda: [each.instance for each in changes],
        },
    )
