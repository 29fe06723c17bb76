"""Reads the changes of feeds in a task, page by page."""

import sys
from collections.abc import Iterator, Sequence

import pyarrow as pa
from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.feed import Changed, FeedCursor
from headrace.pipeline.source.building import gathered
from headrace.pipeline.source.feed.offset import OLDEST, FeedSpan
from headrace.pipeline.source.feed.rows import of_changes
from headrace.pipeline.source.lacking import GO_ON
from headrace.pipeline.source.opening import opened
from headrace.pipeline.source.schema import Table
from headrace.stores.contract.feeds import FeedStore


def read_spans(url: str, spans: Sequence[FeedSpan], table: Table, fails_on_loss: bool) -> Iterator[pa.RecordBatch]:
    """The changes of the spans in order, with the columns of `table`.

    Changes that were dropped since the spans were planned fail the read; without `fails_on_loss` they are skipped, and
    their number is told on stderr.
    """
    yield from gathered(_batches(url, spans, table, fails_on_loss))


def _batches(url: str, spans: Sequence[FeedSpan], table: Table, fails_on_loss: bool) -> Iterator[pa.RecordBatch]:
    skipped = 0
    with opened(url) as (runner, store):
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
    """Changes of a span that are there."""

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
