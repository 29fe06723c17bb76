"""Reads feeds for Spark: their items as a batch, their changes as a stream."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headrace.feeds.context import snapshot
from headrace.model.feed import FeedName
from headrace.model.limits import PAGE_MAX
from headrace.pipeline.source.arrow import coalesce
from headrace.pipeline.source.discovery import feed_states, find_feeds
from headrace.pipeline.source.feed.follower import FeedFollower
from headrace.pipeline.source.feed.offset import FeedOffset, FeedSpan
from headrace.pipeline.source.feed.rows import PRESENT, of_items, read_spans
from headrace.pipeline.source.filters import FilteredReader, FilterPushdown, Filters
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.partitioning import HostPartition, pack
from headrace.pipeline.source.schema import Table
from headrace.pipeline.source.store_access import check_host, connect
from headrace.pipeline.source.stream_reader import OffsetJson, OffsetStreamReader
from headrace.stores.contract.store import Store


class FeedPartition(HostPartition):
    """The feeds that one task reads."""

    def __init__(self, feeds: tuple[FeedName, ...]) -> None:
        super().__init__(feeds)
        self.feeds = feeds


class FeedReader(FilteredReader):
    """The items of the feeds that the options name. A feed is read in one piece, so that its items belong together."""

    def __init__(self, options: SourceOptions, table: Table) -> None:
        self._options = options
        self._table = table

    def partitions(self) -> list[InputPartition]:
        with connect(self._options.url) as (runner, store):
            return [FeedPartition(feeds) for feeds in runner.run(_plan(store, self._options, self.filters))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark hands a partition of its own making to a read that has none.
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
    """The same for a query whose filters Spark hands over."""


async def _plan(store: Store, options: SourceOptions, filters: Filters) -> list[tuple[FeedName, ...]]:
    feeds = await find_feeds(store, options)
    if not filters.allows("event", PRESENT) or not filters.allows("tenant", options.tenant):
        return []
    states = await feed_states(store, [feed for feed in feeds if filters.allows("feed", feed.name)])
    return pack((state.feed, state.items) for state in states if state is not None and state.items)


class FeedStream(OffsetStreamReader[FeedOffset, FeedSpan]):
    """The changes of the feeds that the options name, from a beginning on, batch by batch. Feeds that come later join
    with everything that is kept of them."""

    def follow(self, store: Store) -> FeedFollower:
        return FeedFollower(store, self.options)

    def parse(self, stored: OffsetJson) -> FeedOffset:
        return FeedOffset.parse(stored)

    def split(self, spans: Sequence[FeedSpan]) -> list[tuple[FeedSpan, ...]]:
        return pack((span, span.count) for span in spans)

    def read_spans(self, spans: Sequence[FeedSpan]) -> Iterator[pa.RecordBatch]:
        return read_spans(self.options.url, spans, self.table, self.options.fails_on_loss)
