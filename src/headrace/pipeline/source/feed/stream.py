"""Follows feeds for Spark: a batch is a range of changes of every feed, planned by one process and read by tasks."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from headrace.pipeline.source.feed.follow import FeedFollower
from headrace.pipeline.source.feed.offset import FeedOffset, FeedSpan
from headrace.pipeline.source.feed.pages import read_spans
from headrace.pipeline.source.following import OffsetFollower, Told
from headrace.pipeline.source.packing import pack
from headrace.stores.contract.store import Store


class FeedStream(OffsetFollower[FeedOffset, FeedSpan]):
    """The changes of the feeds that the options name, from a beginning on, batch by batch. Feeds that come later join
    with everything that is kept of them."""

    def follow(self, store: Store) -> FeedFollower:
        return FeedFollower(store, self.options)

    def parse(self, told: Told) -> FeedOffset:
        return FeedOffset.parse(told)

    def split(self, spans: Sequence[FeedSpan]) -> list[tuple[FeedSpan, ...]]:
        return pack((span, span.count) for span in spans)

    def read_spans(self, spans: Sequence[FeedSpan]) -> Iterator[pa.RecordBatch]:
        return read_spans(self.options.url, spans, self.table, self.options.fails_on_loss)
