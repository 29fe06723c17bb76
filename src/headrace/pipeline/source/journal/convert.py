"""Turns journal entries into Arrow: many entries at once, parsed by Arrow's own JSON reader."""

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from msgspec import Struct

from headrace.model.event import Entry
from headrace.model.limits import UNREADABLE_CHARS_MAX
from headrace.model.names import Shard
from headrace.model.validate import cut
from headrace.pipeline.source.schema import INSTANT, JOURNAL, JSON_SCHEMA, LINE, Table

_log = logging.getLogger(__name__)
_BLOCK_BYTES = 1 << 20
"""Larger than any line without a payload: ids, kinds and error texts are bounded."""
_WRITTEN = {column.name: written for column, written in zip(LINE, JSON_SCHEMA.names, strict=True)}
"""The field of a line that a column comes from."""


class JournalPage(Struct, frozen=True, gc=False):
    """Entries of one shard that follow each other."""

    shard: Shard
    entries: Sequence[Entry]


class Converter:
    """Makes Arrow of pages, with the columns of a table and no work for the others."""

    def __init__(self, table: Table = JOURNAL) -> None:
        self._table = table
        needed = [_WRITTEN[name] for name in table.names if name in _WRITTEN]
        if "worker" in table.names and "fence" not in needed:
            needed.append("fence")  # tells whether a line is about a delivery
        schema = pa.schema([JSON_SCHEMA.field(name) for name in needed])
        self._parsing = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore") if needed else None

    def record_batch(self, pages: Sequence[JournalPage]) -> pa.RecordBatch:
        """The events of the pages in order; there must be one at least. A line that cannot be read is an event all the
        same, with the columns that can."""
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
        """The fields of the lines that are needed, if any is."""
        if self._parsing is None:
            return None
        text = pa.py_buffer(b"".join([entry.lines for entry in entries]))
        table = pj.read_json(pa.BufferReader(text), read_options=_reading(entries), parse_options=self._parsing)
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def _reading(entries: Sequence[Entry]) -> pj.ReadOptions:
    """How to read the lines of entries: no line may be larger than a block, and one with a payload may be."""
    large = [entry.lines for entry in entries if len(entry.lines) > _BLOCK_BYTES]
    longest = max((len(line) for lines in large for line in lines.splitlines(keepends=True)), default=0)
    # Parsing is most of the work: where a core is idle, Arrow's threads take it (a fifth faster), where none is they
    # take turns and nothing is lost.
    return pj.ReadOptions(use_threads=True, block_size=max(_BLOCK_BYTES, longest))


class _Rows:
    """The columns of some pages, each made when it is asked for."""

    def __init__(self, pages: Sequence[JournalPage], entries: Sequence[Entry], counts: Any, lines: Any) -> None:
        self._pages = pages
        self._entries = entries
        self._counts = counts
        self._lines = lines

    def column(self, name: str) -> pa.Array:
        made = _MADE.get(name)
        if made is not None:
            return made(self)
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


_MADE: dict[str, Callable[[_Rows], pa.Array]] = {
    "tenant": _Rows.tenant,
    "queue": _Rows.queue,
    "shard": _Rows.shard,
    "epoch": _Rows.epoch,
    "seq": _Rows.seq,
    "happened_at": _Rows.happened_at,
    "worker": _Rows.worker,
}
"""Columns that are not simply a field of the line."""
_INSTANTS = {column.name for column in LINE if column.arrow == INSTANT}


def _instants(millis: pa.Array) -> pa.Array:
    return millis.cast(pa.timestamp("ms", tz="UTC")).cast(INSTANT)


def _warn(pages: Sequence[JournalPage], error: Exception) -> None:
    found = [(page.shard, line) for page in pages for entry in page.entries for line in entry.unreadable()]
    for shard, line in found[:1]:
        _log.warning(
            "%s lines of journals cannot be read whole, the first is seq %s of %s: %s; headrace doctor names others",
            f"{len(found):,}", line.seq, shard, line.why,
        )  # fmt: skip
    if not found:
        _log.warning("lines of journals cannot be read whole: %s", cut(str(error), UNREADABLE_CHARS_MAX))


def _check_lines(lines: Any, count: int) -> None:
    # What Arrow itself lets pass: lines too few or too many, no name of an event, texts that are not UTF-8.
    if lines.num_rows != count:
        raise pa.ArrowInvalid(f"{count:,} events have {lines.num_rows:,} lines")
    if "event" in lines.schema.names and lines["event"].null_count:
        raise pa.ArrowInvalid("a line does not name its event")
    lines.validate(full=True)
