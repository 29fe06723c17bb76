"""Reads journals in a task: one thread fetches pages, one makes Arrow of them, and this one hands it to Spark."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from queue import SimpleQueue

import pyarrow as pa

from headrace.model.errors import StoreUnavailable
from headrace.model.event import Span
from headrace.model.limits import JOURNAL_PAGE_BYTES, JOURNAL_PAGE_MAX
from headrace.pipeline.source.ahead import ahead
from headrace.pipeline.source.filters import Filters
from headrace.pipeline.source.journal.bodies import Bodies, asks_for_bodies, events_for
from headrace.pipeline.source.journal.convert import Converter, JournalPage
from headrace.pipeline.source.opening import opened
from headrace.pipeline.source.schema import Table
from headrace.stores.contract.journal import Journal

BATCH_ROWS = 20_000
"""Rows of a batch for Spark: enough to outweigh what each costs, and a few MiB."""
FIRST_PAGE_ENTRIES = 20
"""Before it is known how many events an entry holds."""
PAGES_AHEAD = 2
"""Pages that are fetched before they are asked for: one to parse next, one under way."""


def read_spans(
    url: str, spans: Sequence[Span], table: Table, filters: Filters, fails_on_loss: bool
) -> Iterator[pa.RecordBatch]:
    """The events of the spans in order, with the columns of `table`, that fulfil the filters.

    Events that retention has dropped since the spans were planned fail the read; without `fails_on_loss` they are
    skipped, and their number is told on stderr.
    """
    if not spans:
        return
    fetching = Fetching(url, spans, fails_on_loss)
    made = (
        _with_bodies(url, fetching, table, filters) if asks_for_bodies(table) else _converted(fetching, table, filters)
    )
    batches = ahead(made)
    try:
        for batch in batches:  # noqa: UP028  (left early, `yield from` would wait for the page that is under way)
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
    for pages in _gathered(fetching.pages()):
        batch = filters.rows(converter.record_batch(pages))
        if batch.num_rows:
            yield batch


def _with_bodies(
    url: str, fetching: "Fetching", table: Table, filters: Filters
) -> Generator[pa.RecordBatch, None, None]:
    """The same with what the store holds of the jobs, by a connection of its own: the next page is on its way."""
    queues = {(span.shard.queue.tenant, span.shard.queue.full_name): span.shard.queue for span in fetching.spans}
    with opened(url) as (runner, store):
        bodies = Bodies(runner, store, queues, table, filters)
        for events in _converted(fetching, events_for(table), Filters()):
            yield from bodies.batches(events)


def _gathered(pages: Iterator[JournalPage]) -> Iterator[list[JournalPage]]:
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
    """A thread with an event loop and a store of its own that fetches the pages of spans, a few ahead of who reads
    them."""

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
    def ahead(self) -> int:
        """How many pages wait to be read."""
        return self._fetched.qsize()

    def pages(self) -> Iterator[JournalPage]:
        """The pages in order; raises what the thread has met."""
        while (found := self._fetched.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            self._tell(self._room.release)
            yield found

    def stop(self) -> None:
        """Stop fetching, whatever is under way, and wait for the thread's end."""
        with self._lock:
            self._is_stopped = True
            if self._task is not None:
                self._tell(self._task.cancel)
        self._thread.join()

    def _tell(self, what: object) -> None:
        assert self._loop is not None
        try:
            self._loop.call_soon_threadsafe(what)  # type: ignore[arg-type]
        except RuntimeError:
            # The loop has ended: there is nothing left to fetch or to stop.
            return

    def _run(self) -> None:
        try:
            with opened(self._url) as (runner, store):
                runner.run(self._fetch(store.journal))
        except BaseException as error:  # noqa: BLE001  (whoever reads raises it, in a thread that is listened to)
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
            # A page is a transaction of its own: a long one would keep SQLite's log from being cut.
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
                # So many entries that the next page is about a batch: one entry holds a line, another a thousand.
                events = after - reached
                self._limit = min(max(BATCH_ROWS * len(entries) // events, 1), JOURNAL_PAGE_MAX)


def _dropped(span: Span, after: int) -> StoreUnavailable:
    return StoreUnavailable(
        f"events of {span.shard} after seq {after} were dropped while they were read, by retention; read again, or let"
        " the queue keep its journal longer"
    )
