"""Fetches the pages of journals in a task and turns them into Arrow, parsed by Arrow's own JSON reader."""

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from functools import cached_property
from queue import SimpleQueue
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from msgspec import Struct

from headrace.model.errors import StoreUnavailable
from headrace.model.event import Entry, Span
from headrace.model.limits import JOURNAL_PAGE_BYTES, JOURNAL_PAGE_MAX, UNREADABLE_CHARS_MAX
from headrace.model.names import Shard
from headrace.model.validate import cut
from headrace.pipeline.source.arrow import prefetch
from headrace.pipeline.source.filters import Filters
from headrace.pipeline.source.journal.payloads import PayloadLookup, events_for, needs_payloads
from headrace.pipeline.source.schema import INSTANT, JOURNAL, JSON_SCHEMA, LINE, Table
from headrace.pipeline.source.store_access import connect
from headrace.stores.contract.journal import Journal

_log = logging.getLogger(__name__)
_BLOCK_BYTES = 1 << 20
"""Above any line without a payload: ids, kinds and error texts are bounded."""
_WRITTEN = {column.name: written for column, written in zip(LINE, JSON_SCHEMA.names, strict=True)}
"""The field of the line for each column."""
_INSTANTS = {column.name for column in LINE if column.arrow == INSTANT}
BATCH_ROWS = 20_000
"""Rows of a batch for Spark: enough to amortise its cost, and a few MiB."""
FIRST_PAGE_ENTRIES = 20
"""Entries of the first page, which shows how many events an entry holds."""
PAGES_AHEAD = 2
"""Pages to fetch ahead: one to parse next, one in flight."""


class JournalPage(Struct, frozen=True, gc=False):
    """Consecutive entries of one shard."""

    shard: Shard
    entries: Sequence[Entry]


class Converter:
    """Converts pages to Arrow, with the work for the selected columns only."""

    def __init__(self, table: Table = JOURNAL) -> None:
        self._table = table
        needed = [_WRITTEN[name] for name in table.names if name in _WRITTEN]
        if "worker" in table.names and "fence" not in needed:
            needed.append("fence")  # tells whether a line is about a delivery
        schema = pa.schema([JSON_SCHEMA.field(name) for name in needed])
        self._parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore") if needed else None

    def record_batch(self, pages: Sequence[JournalPage]) -> pa.RecordBatch:
        """The events of the pages in order, at least one. An unreadable line is still an event, with the readable
        columns."""
        try:
            return self._converted(pages)
        except pa.ArrowInvalid as error:
            _warn(pages, error)
        return self._converted([JournalPage(page.shard, [each.readable() for each in page.entries]) for page in pages])

    def _converted(self, pages: Sequence[JournalPage]) -> pa.RecordBatch:
        entries = [entry for page in pages for entry in page.entries]
        counts = np.array([entry.count for entry in entries], dtype=np.int64)
        lines = self._parse(entries)
        if lines is not None:
            _check_lines(lines, counts.sum())
        rows = _Rows(pages, entries, counts, lines)
        return pa.RecordBatch.from_arrays([rows.column(name) for name in self._table.names], schema=self._table.arrow)

    def _parse(self, entries: Sequence[Entry]) -> Any:
        """The needed fields of the lines, if any."""
        if self._parsing is None:
            return None
        text = pa.py_buffer(b"".join([entry.lines for entry in entries]))
        table = pj.read_json(pa.BufferReader(text), read_options=_reading(entries), parse_options=self._parsing)
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _reading(entries: Sequence[Entry]) -> pj.ReadOptions:
    """Read options for entries: a block must hold the longest line, which may have a payload."""
    large = [entry.lines for entry in entries if len(entry.lines) > _BLOCK_BYTES]
    longest = max((len(line) for lines in large for line in lines.splitlines(keepends=True)), default=0)
    # Parsing is most of the work: with an idle core Arrow's threads are a fifth faster, without one nothing is lost.
    return pj.ReadOptions(use_threads=True, block_size=max(_BLOCK_BYTES, longest))


class _Rows:
    """The columns of some pages, each computed when a table needs it."""

    def __init__(self, pages: Sequence[JournalPage], entries: Sequence[Entry], counts: Any, lines: Any) -> None:
        self._pages = pages
        self._entries = entries
        self._counts = counts
        self._lines = lines

    def column(self, name: str) -> pa.Array:
        compute = _COMPUTED.get(name)
        if compute is not None:
            return compute(self)
        found = self._lines[_WRITTEN[name]]
        return _instants(found) if name in _INSTANTS else found

    def tenant(self) -> pa.Array:
        return self._of_shards([page.shard.queue.tenant for page in self._pages], pa.string())

    def queue(self) -> pa.Array:
        return self._of_shards([page.shard.queue.full_name for page in self._pages], pa.string())

    def shard(self) -> pa.Array:
        return self._of_shards([page.shard.index for page in self._pages], pa.int32())

    def epoch(self) -> pa.Array:
        return pa.array(np.repeat(np.array([entry.epoch for entry in self._entries], dtype=np.int64), self._counts))

    def seq(self) -> pa.Array:
        # Within an entry numbers count up by one: the position in the batch, shifted by where the entry begins.
        begins = np.cumsum(self._counts) - self._counts
        firsts = np.array([entry.first_seq for entry in self._entries], dtype=np.int64)
        return pa.array(np.arange(self._counts.sum(), dtype=np.int64) + np.repeat(firsts - begins, self._counts))

    def happened_at(self) -> pa.Array:
        at_ms = np.array([entry.at_ms for entry in self._entries], dtype=np.int64)
        return _instants(pa.array(np.repeat(at_ms, self._counts)))

    def worker(self) -> pa.Array:
        """A line's own worker, else the entry's where the line is about a delivery."""
        own = pa.array([entry.worker for entry in self._entries], pa.string())
        of_entry = own.take(pa.array(np.repeat(np.arange(len(self._entries)), self._counts)))
        of_delivery = pc.if_else(self._lines["fence"].is_valid(), of_entry, pa.scalar(None, pa.string()))
        return pc.coalesce(self._lines["worker"], of_delivery)

    def _of_shards(self, values: Sequence[object], type: Any) -> pa.Array:
        if len(set(values)) == 1:
            return pa.repeat(pa.scalar(values[0], type), int(self._counts.sum()))
        return pa.array(values, type).take(pa.array(np.repeat(np.arange(len(values)), self._page_counts)))

    @cached_property
    def _page_counts(self) -> Any:
        return np.array([sum(entry.count for entry in page.entries) for page in self._pages], dtype=np.int64)


_COMPUTED: dict[str, Callable[[_Rows], pa.Array]] = {
    "tenant": _Rows.tenant,
    "queue": _Rows.queue,
    "shard": _Rows.shard,
    "epoch": _Rows.epoch,
    "seq": _Rows.seq,
    "happened_at": _Rows.happened_at,
    "worker": _Rows.worker,
}
"""Columns that are computed, not read from the line."""


def _instants(millis: pa.Array) -> pa.Array:
    return millis.cast(pa.timestamp("ms", tz="UTC")).cast(INSTANT)


def _warn(pages: Sequence[JournalPage], error: Exception) -> None:
    found = [(page.shard, line) for page in pages for entry in page.entries for line in entry.unreadable()]
    for shard, line in found[:1]:
        _log.warning(
            "%s lines of journals cannot be read completely, the first is seq %s of %s: %s; headrace doctor lists more",
            f"{len(found):,}", line.seq, shard, line.why,
        )  # fmt: skip
    if not found:
        _log.warning("lines of journals cannot be read completely: %s", cut(str(error), UNREADABLE_CHARS_MAX))


def _check_lines(lines: Any, count: int) -> None:
    # Faults that Arrow accepts: too few or too many lines, a missing event name, texts that are not UTF-8.
    if lines.num_rows != count:
        raise pa.ArrowInvalid(f"{count:,} events have {lines.num_rows:,} lines")
    if "event" in lines.schema.names and lines["event"].null_count:
        raise pa.ArrowInvalid("a line does not name its event")
    lines.validate(full=True)


def read_spans(
    url: str, spans: Sequence[Span], table: Table, filters: Filters, fails_on_loss: bool
) -> Iterator[pa.RecordBatch]:
    """The events of the spans in order, with the columns of `table`, that fulfil the filters.

    Events that retention has dropped since the spans were planned fail the read; without `fails_on_loss` they are
    skipped, and their number is printed on stderr.
    """
    if not spans:
        return
    fetching = Fetching(url, spans, fails_on_loss)
    compute = (
        _with_payloads(url, fetching, table, filters) if needs_payloads(table) else _converted(fetching, table, filters)
    )
    batches = prefetch(compute)
    try:
        for batch in batches:  # noqa: UP028  (after an early exit, `yield from` would wait for the page in flight)
            yield batch
    finally:
        fetching.stop()
        batches.close()
    if fetching.skipped:
        print(
            f"headrace: {fetching.skipped:,} events were dropped by retention before they were read, and are left out"
            " (failOnDataLoss=false)",
            file=sys.stderr,
            flush=True,
        )


def _converted(fetching: "Fetching", table: Table, filters: Filters) -> Generator[pa.RecordBatch, None, None]:
    converter = Converter(table)
    for pages in _page_groups(fetching.pages()):
        batch = filters.rows(converter.record_batch(pages))
        if batch.num_rows:
            yield batch


def _with_payloads(
    url: str, fetching: "Fetching", table: Table, filters: Filters
) -> Generator[pa.RecordBatch, None, None]:
    """The same with payloads and results from the store, on a second connection, since the first fetches the next
    page."""
    queues = {(span.shard.queue.tenant, span.shard.queue.full_name): span.shard.queue for span in fetching.spans}
    with connect(url) as (runner, store):
        payloads = PayloadLookup(runner, store, queues, table, filters)
        for events in _converted(fetching, events_for(table), Filters()):
            yield from payloads.batches(events)


def _page_groups(pages: Iterator[JournalPage]) -> Iterator[list[JournalPage]]:
    """Pages in groups of about `BATCH_ROWS` events, fewer where they are large."""
    group: list[JournalPage] = []
    rows = size = 0
    for page in pages:
        group.append(page)
        rows += sum(entry.count for entry in page.entries)
        size += sum(len(entry.lines) for entry in page.entries)
        if rows >= BATCH_ROWS or size >= JOURNAL_PAGE_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


class Fetching:
    """Fetches the pages of spans, a few ahead of the reader, in a thread with its own event loop and store."""

    def __init__(self, url: str, spans: Sequence[Span], fails_on_loss: bool) -> None:
        self._url = url
        self.spans = spans
        self._fails_on_loss = fails_on_loss
        self._fetched: SimpleQueue[JournalPage | BaseException | None] = SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._room = asyncio.Semaphore(PAGES_AHEAD)
        self._lock = threading.Lock()
        self._is_stopped = False
        self._limit = FIRST_PAGE_ENTRIES
        self.skipped = 0
        # A daemon: a task that Spark kills must not wait for it.
        self._thread = threading.Thread(target=self._run, name="headrace-fetch", daemon=True)
        self._thread.start()

    @property
    def pages_ready(self) -> int:
        """The number of fetched pages that were not read yet."""
        return self._fetched.qsize()

    def pages(self) -> Iterator[JournalPage]:
        """The pages in order; raises the error of the thread."""
        while (found := self._fetched.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            self._call_loop(self._room.release)
            yield found

    def stop(self) -> None:
        """Stop fetching, and wait for the thread to end."""
        with self._lock:
            self._is_stopped = True
            if self._task is not None:
                self._call_loop(self._task.cancel)
        self._thread.join()

    def _call_loop(self, what: object) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(what)  # type: ignore[arg-type]
        except RuntimeError:
            # The loop has ended: there is nothing left to fetch or to stop.
            return

    def _run(self) -> None:
        try:
            with connect(self._url) as (runner, store):
                runner.run(self._fetch(store.journal))
        except BaseException as error:  # noqa: BLE001  (raised again where the pages are read)
            self._fetched.put(error)
        else:
            self._fetched.put(None)

    async def _fetch(self, journal: Journal) -> None:
        with self._lock:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if self._is_stopped:
                return
        for span in self.spans:
            async for page in self._pages_of(journal, span):
                await self._room.acquire()
                self._fetched.put(page)

    async def _pages_of(self, journal: Journal, span: Span) -> AsyncIterator[JournalPage]:
        after = span.after
        while after < span.upto:
            # Each page is a transaction: a long one would keep SQLite from truncating its log.
            entries = await journal.read(span.shard, after, span.upto, limit=self._limit)
            reached = entries[0].first_seq - 1 if entries else span.upto
            if reached > after:
                if self._fails_on_loss:
                    raise _dropped(span, after)
                self.skipped += reached - after
            after = reached
            if entries:
                yield JournalPage(span.shard, entries)
                after = entries[-1].last_seq
                # Entries for about one batch: an entry holds one line or a thousand.
                events = after - reached
                self._limit = min(max(BATCH_ROWS * len(entries) // events, 1), JOURNAL_PAGE_MAX)


def _dropped(span: Span, after: int) -> StoreUnavailable:
    return StoreUnavailable(
        f"events of {span.shard} after seq {after} were dropped by retention while they were read; read again, or let"
        " the queue keep its journal longer"
    )
