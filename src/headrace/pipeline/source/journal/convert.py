"""Turns journal entries into Arrow: many entries at once, parsed by Arrow's own JSON reader."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from headrace.model.errors import HeadraceError
from headrace.model.event import Entry
from headrace.model.names import Shard
from headrace.pipeline.source.schema import ARROW_SCHEMA, JSON_SCHEMA

_BLOCK_BYTES = 1 << 20
"""Larger than any line: ids, kinds and error texts are bounded."""
_PARSE = pj.ParseOptions(explicit_schema=JSON_SCHEMA, unexpected_field_behavior="ignore")
# A task has one core; Arrow's own threads would only fight over it.
_READ = pj.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES)


def record_batch(shard: Shard, entries: Sequence[Entry]) -> pa.RecordBatch:
    """The events of a shard's entries in order, with the columns of `ARROW_SCHEMA`."""
    counts = np.array([entry.count for entry in entries], dtype=np.int64)
    lines = _parse(entries)
    if lines.num_rows != counts.sum():
        raise HeadraceError(
            f"the journal of {shard} says {counts.sum():,} events up to seq {entries[-1].last_seq} and holds"
            f" {lines.num_rows:,} lines; the store is damaged"
        )
    columns = {
        "tenant": pa.repeat(shard.queue.tenant, lines.num_rows),
        "queue": pa.repeat(shard.queue.full_name, lines.num_rows),
        "shard": pa.repeat(pa.scalar(shard.index, pa.int32()), lines.num_rows),
        "epoch": pa.array(np.repeat(np.array([entry.epoch for entry in entries], dtype=np.int64), counts)),
        "seq": pa.array(_seqs(entries, counts)),
        "at": _instants(pa.array(np.repeat(np.array([entry.at_ms for entry in entries], dtype=np.int64), counts))),
        "run_at": _instants(lines["run_at_ms"]),
        "enqueued_at": _instants(lines["enqueued_at_ms"]),
        "worker": _workers(lines, entries, counts),
    }
    return pa.RecordBatch.from_arrays(
        [columns[name] if name in columns else lines[name] for name in ARROW_SCHEMA.names], schema=ARROW_SCHEMA
    )


def _parse(entries: Sequence[Entry]) -> pa.RecordBatch:
    text = pa.py_buffer(b"".join(entry.lines for entry in entries))
    table = pj.read_json(pa.BufferReader(text), read_options=_READ, parse_options=_PARSE)
    return table.combine_chunks().to_batches()[0]


def _seqs(entries: Sequence[Entry], counts: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> object:
    # Within an entry numbers count up by one: the position in the page, shifted by where the entry begins.
    begins = np.cumsum(counts) - counts
    firsts = np.array([entry.first_seq for entry in entries], dtype=np.int64)
    return np.arange(counts.sum(), dtype=np.int64) + np.repeat(firsts - begins, counts)


def _instants(millis: pa.Array) -> pa.Array:
    return millis.cast(pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC"))


def _workers(
    lines: pa.RecordBatch, entries: Sequence[Entry], counts: "np.ndarray[tuple[int], np.dtype[np.int64]]"
) -> pa.Array:
    """A line's own worker, else the entry's where the line is about a delivery."""
    own = pa.array([entry.worker for entry in entries], pa.string())
    of_entry = own.take(pa.array(np.repeat(np.arange(len(entries)), counts)))
    of_delivery = pc.if_else(lines["fence"].is_valid(), of_entry, pa.scalar(None, pa.string()))
    return pc.coalesce(lines["worker"], of_delivery)
