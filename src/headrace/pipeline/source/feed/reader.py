"""Reads feeds for Spark as they are: all items of each at one instant of its log."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headrace.feeds.context import snapshot
from headrace.model.feed import FeedName
from headrace.model.limits import PAGE_MAX
from headrace.pipeline.source.building import gathered
from headrace.pipeline.source.feed.rows import PRESENT, of_items
from headrace.pipeline.source.feed.states import states_of
from headrace.pipeline.source.filters import Filters, Pushing
from headrace.pipeline.source.machine import LocalPartition, check_here
from headrace.pipeline.source.opening import opened
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.packing import pack
from headrace.pipeline.source.schema import Table
from headrace.pipeline.source.targets import find_feeds
from headrace.stores.contract.store import Store


class FeedPart(LocalPartition):
    """The feeds that one task reads."""

    def __init__(self, feeds: tuple[FeedName, ...]) -> None:
        super().__init__(feeds)
        self.feeds = feeds


class FeedReader(Pushing):
    """The items of the feeds that the options name. A feed is read in one piece, so that its items belong together."""

    def __init__(self, options: SourceOptions, table: Table) -> None:
        self._options = options
        self._table = table

    def partitions(self) -> list[InputPartition]:
        with opened(self._options.url) as (runner, store):
            return [FeedPart(feeds) for feeds in runner.run(_plan(store, self._options, self.filters))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark hands a partition of its own making to a read that has none.
        if isinstance(partition, FeedPart):
            check_here(self._options.url, partition.planned_on)
            yield from gathered(map(self.filters.rows, self._items(partition.feeds)))

    def _items(self, feeds: tuple[FeedName, ...]) -> Iterator[pa.RecordBatch]:
        with opened(self._options.url) as (runner, store):
            for feed in feeds:
                found = runner.run(snapshot(store, feed))
                if found.as_of is not None:  # else it was deleted meanwhile
                    for first in range(0, len(found.rows), PAGE_MAX):
                        items = found.rows[first : first + PAGE_MAX]
                        yield of_items(self._table, feed, found.as_of, items, first)


async def _plan(store: Store, options: SourceOptions, filters: Filters) -> list[tuple[FeedName, ...]]:
    feeds = await find_feeds(store, options)
    if not filters.allows("event", PRESENT) or not filters.allows("tenant", options.tenant):
        return []
    states = await states_of(store, [feed for feed in feeds if filters.allows("feed", feed.name)])
    return pack((state.feed, state.items) for state in states if state is not None and state.items)
