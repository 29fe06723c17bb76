"""Reads the changes of feeds page by page, and makes Arrow of items and changes."""

import sys
from collections.abc import Iterator, Sequence

import pyarrow as pa
from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.feed import Changed, FeedCursor, FeedName, Item
from headrace.pipeline.source.arrow import build_batch, coalesce, instants, texts
from headrace.pipeline.source.feed.offset import OLDEST, FeedSpan
from headrace.pipeline.source.offsets import GO_ON
from headrace.pipeline.source.schema import Table
from headrace.pipeline.source.store_access import connect
from headrace.stores.contract.feeds import FeedStore

PRESENT = "present"
"""The event of an item of a feed."""
_BARE = ("retracted", "deleted")
"""Changes without an item."""


def of_items(table: Table, feed: FeedName, as_of: FeedCursor, items: Sequence[Item], first: int) -> pa.RecordBatch:
    """Items that follow each other in a feed, the first of them at position `first`."""
    count = len(items)
    return build_batch(
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
    return build_batch(
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


def read_spans(url: str, spans: Sequence[FeedSpan], table: Table, fails_on_loss: bool) -> Iterator[pa.RecordBatch]:
    """The changes of the spans in order, with the columns of `table`.

    Changes that were dropped since the spans were planned fail the read; without `fails_on_loss` they are skipped, and
    their number is told on stderr.
    """
    yield from coalesce(_batches(url, spans, table, fails_on_loss))


def _batches(url: str, spans: Sequence[FeedSpan], table: Table, fails_on_loss: bool) -> Iterator[pa.RecordBatch]:
    skipped = 0
    with connect(url) as (runner, store):
        for span in spans:
            after = span.after
            while after.seq < span.upto:
                page = runner.run(read_page(store.feeds, span, after))
                if fails_on_loss and not page.is_next:
                    raise _dropped(span, after)
                skipped += (page.rows[0].seq if page.rows else span.upto + 1) - after.seq - 1
                if page.rows:
                    yield of_changes(table, span.feed, after.birth, page.rows)
                after = page.reached
    if skipped:
        print(
            f"headrace: {skipped:,} changes were dropped by retention before they were read, and are left out"
            " (failOnDataLoss=false)",
            file=sys.stderr,
            flush=True,
        )


class FeedPage(Struct, frozen=True):
    """Changes of a span that the feed keeps."""

    rows: list[Changed]
    reached: FeedCursor
    """Behind the last of them; at the end of the span when there are none."""
    is_next: bool
    """Whether they are what follows, without a hole and in the log that was planned."""


async def read_page(feeds: FeedStore, span: FeedSpan, after: FeedCursor) -> FeedPage:
    """The changes of a span behind a place, as far as they are there."""
    page = await feeds.changes(span.feed, None if after.epoch == OLDEST else after)
    is_kept = page.status == "kept"
    if page.status == "gap":
        page = await feeds.changes(span.feed)
    rows = [row for row in page.rows if after.seq < row.seq <= span.upto]
    if not rows or page.cursor is None or page.cursor.birth != after.birth:
        return FeedPage([], FeedCursor(after.birth, OLDEST, span.upto), False)
    reached = FeedCursor(after.birth, rows[-1].epoch, rows[-1].seq)
    return FeedPage(rows, reached, is_kept and rows[0].seq == after.seq + 1)


def _dropped(span: FeedSpan, after: FeedCursor) -> Refused:
    return Refused(
        "data_loss",
        f"the stream is to read feed {span.feed} from seq {after.seq + 1:,} on, and that is not there any more; let the"
        " feed keep more of its changes (changes_keep_max, changes_keep_ms, changes_bytes_max), and use a new"
        f" checkpoint, {GO_ON} without them",
    )
