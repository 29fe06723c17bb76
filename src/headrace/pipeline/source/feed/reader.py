"""Reads feeds for Spark: items as a batch, changes as a stream."""

import sys
from collections.abc import Iterator, Sequence

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.datasource import InputPartition

from headrace.feeds.context import snapshot
from headrace.model.errors import Refused
from headrace.model.feed import Changed, FeedCursor, FeedName, Item
from headrace.model.limits import PAGE_MAX
from headrace.pipeline.source.arrow import build_batch, coalesce, instants, texts
from headrace.pipeline.source.discovery import feed_states, find_feeds
from headrace.pipeline.source.feed.follower import FeedFollower
from headrace.pipeline.source.feed.offset import OLDEST, FeedOffset, FeedSpan
from headrace.pipeline.source.filters import FilteredReader, FilterPushdown, Filters
from headrace.pipeline.source.offsets import GO_ON
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.partitioning import HostPartition, pack
from headrace.pipeline.source.schema import Table
from headrace.pipeline.source.store_access import check_host, connect
from headrace.pipeline.source.stream_reader import OffsetJson, OffsetStreamReader
from headrace.stores.contract.feeds import FeedStore
from headrace.stores.contract.store import Store

PRESENT = "present"
"""The event of an item of a feed."""
_BARE = ("retracted", "deleted")
"""Changes without an item."""


class FeedPartition(HostPartition):
    """The feeds that one task reads."""

    def __init__(self, feeds: tuple[FeedName, ...]) -> None:
        super().__init__(feeds)
        self.feeds = feeds


class FeedReader(FilteredReader):
    """The items of the selected feeds, each read as one snapshot."""

    def __init__(self, options: SourceOptions, table: Table) -> None:
        self._options = options
        self._table = table

    def partitions(self) -> list[InputPartition]:
        with connect(self._options.url) as (runner, store):
            return [FeedPartition(feeds) for feeds in runner.run(_plan(store, self._options, self.filters))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # For an empty read, Spark passes a partition of another type.
        if isinstance(partition, FeedPartition):
            check_host(self._options.url, partition.planned_on)
            yield from coalesce(map(self.filters.rows, self._items(partition.feeds)))

    def _items(self, feeds: tuple[FeedName, ...]) -> Iterator[pa.RecordBatch]:
        with connect(self._options.url) as (runner, store):
            for feed in feeds:
                found = runner.run(snapshot(store, feed))
                if found.as_of is not None:  # else it was deleted meanwhile
                    for first in range(0, len(found.rows), PAGE_MAX):
                        items = found.rows[first : first + PAGE_MAX]
                        yield of_items(self._table, feed, found.as_of, items, first)


class FilteredFeedReader(FilterPushdown, FeedReader):
    """The same reader with filter pushdown."""


async def _plan(store: Store, options: SourceOptions, filters: Filters) -> list[tuple[FeedName, ...]]:
    feeds = await find_feeds(store, options)
    if not filters.allows("event", PRESENT) or not filters.allows("tenant", options.tenant):
        return []
    states = await feed_states(store, [feed for feed in feeds if filters.allows("feed", feed.name)])
    return pack((state.feed, state.items) for state in states if state is not None and state.items)


class FeedStream(OffsetStreamReader[FeedOffset, FeedSpan]):
    """A stream of the changes of the selected feeds. New feeds join with all their kept changes."""

    def follow(self, store: Store) -> FeedFollower:
        return FeedFollower(store, self.options)

    def parse(self, stored: OffsetJson) -> FeedOffset:
        return FeedOffset.parse(stored)

    def split(self, spans: Sequence[FeedSpan]) -> list[tuple[FeedSpan, ...]]:
        return pack((span, span.count) for span in spans)

    def read_spans(self, spans: Sequence[FeedSpan]) -> Iterator[pa.RecordBatch]:
        return read_spans(self.options.url, spans, self.table, self.options.fails_on_loss)


def of_items(table: Table, feed: FeedName, as_of: FeedCursor, items: Sequence[Item], first: int) -> pa.RecordBatch:
    """Consecutive items of a feed, the first at position `first`."""
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
            # Events of the feed itself have no item.
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
    their number is printed on stderr.
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
    """The kept changes of a span, page by page."""

    rows: list[Changed]
    reached: FeedCursor
    """The cursor after the last of them; the end of the span without any."""
    is_next: bool
    """Whether they follow without a gap in the planned log."""


async def read_page(feeds: FeedStore, span: FeedSpan, after: FeedCursor) -> FeedPage:
    """The next changes of a span after a cursor, as far as they are kept."""
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
        f"the stream is to read feed {span.feed} from seq {after.seq + 1:,} on, which was dropped; let the feed keep"
        " more of its changes (changes_keep_max, changes_keep_ms, changes_bytes_max), and use a new"
        f" checkpoint, {GO_ON} without them",
    )
