"""Checks the files of a batch by seq: one with less or more events than Spark has planned is not committed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct

from headrace.model.errors import StoreUnavailable
from headrace.pipeline.source.journal.offset import Mark, Offset
from headrace.pipeline.source.offsets import unknown_form
from headrace.pipeline.storage.layout import DataFile


class SeqSpan(Struct, frozen=True, gc=False):
    """The events of a journal with `after < seq <= upto`."""

    after: int
    upto: int

    @property
    def count(self) -> int:
        """How many they are."""
        return max(self.upto - self.after, 0)


class PlannedBatch(Struct, frozen=True):
    """Where a batch ends, and what it is to hold of each journal."""

    end: Offset
    spans: dict[str, SeqSpan]

    @property
    def events(self) -> int:
        """How many in all."""
        return sum(span.count for span in self.spans.values())


def read_planned(checkpoint: Path, number: int) -> PlannedBatch:
    """The batch that Spark gives this number."""
    end = read_end(checkpoint, number)
    # The first batch of a checkpoint says itself where each journal begins; one that says nothing holds nothing.
    before = read_end(checkpoint, number - 1) if number else end
    return PlannedBatch(end, {name: SeqSpan(end.begins(before, name), mark.seq) for name, mark in end.shards.items()})


def read_end(checkpoint: Path, number: int) -> Offset:
    """Where the batch that Spark gives this number ends."""
    # A version, what Spark notes of the query, then a line for each source.
    lines = (checkpoint / "offsets" / str(number)).read_bytes().splitlines()
    try:
        stored = msgspec.json.decode(lines[-1])
    except (IndexError, msgspec.DecodeError):
        raise unknown_form() from None
    return Offset.parse(stored)


Run = tuple[str, int, int]
"""Events of a journal `tenant/queue/shard` without a gap: the first and the last seq."""


class StoredRange(Struct, frozen=True):
    """What the files of a batch hold of a journal."""

    first: int
    last: int
    rows: int
    distinct: int


class VerifiedCounts(Struct):
    """What a batch adds to the totals of a history."""

    events: int = 0
    skipped: int = 0
    lost: int = 0


def seq_runs(rows: pa.Table) -> list[Run]:
    """The runs of seq in rows that are in their order; each task finds them in what it writes."""
    columns = [_codes(rows.column(name)) for name in ("tenant", "queue", "shard")]
    seqs = rows.column("seq").to_numpy()
    is_break = np.diff(seqs) != 1
    for codes in columns:
        is_break |= np.diff(codes) != 0
    starts = np.concatenate(([0], np.flatnonzero(is_break) + 1))
    ends = np.concatenate((starts[1:], [len(seqs)])) - 1
    names = rows.select(["tenant", "queue", "shard"]).take(pa.array(starts)).to_pylist()
    return [
        (f"{name['tenant']}/{name['queue']}/{name['shard']}", int(seqs[start]), int(seqs[end]))
        for name, start, end in zip(names, starts, ends, strict=True)
    ]


def stored_ranges(files: Sequence[DataFile]) -> dict[str, StoredRange]:
    """What the files of a batch hold, by `tenant/queue/shard`."""
    runs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for file in files:
        for name, first, last in file.summary:
            runs[name].append((first, last))
    return {name: _joined(sorted(found)) for name, found in runs.items()}


def _joined(runs: Sequence[tuple[int, int]]) -> StoredRange:
    rows = distinct = 0
    upto = runs[0][0] - 1
    for first, last in runs:
        rows += last - first + 1
        distinct += max(last - max(first - 1, upto), 0)
        upto = max(upto, last)
    return StoredRange(runs[0][0], upto, rows, distinct)


def _codes(column: pa.ChunkedArray) -> Any:
    values = column.combine_chunks()
    return (values if pa.types.is_integer(values.type) else values.dictionary_encode().indices).to_numpy()


def verify(
    planned: PlannedBatch, held: Mapping[str, StoredRange], marks: Mapping[str, Mark], *, strict: bool
) -> VerifiedCounts:
    """Compare what a batch holds with what it is to hold, and that with where the history ended.

    `strict` allows nothing to be missing; otherwise it is counted what the stream has gone on without.
    """
    counts = VerifiedCounts()
    for name in held.keys() - planned.spans.keys():
        raise _wrong(name, "nothing", held[name])
    for name, span in planned.spans.items():
        _check_begin(planned, name, marks.get(name), counts, strict=strict)
        found = held.get(name)
        if found is None:
            if span.count and strict:
                raise _wrong(name, _seq_text(span), None)
            counts.skipped += span.count
            continue
        has_gaps = found.rows != found.distinct or found.last - found.first + 1 != found.rows
        is_inside = span.after < found.first and found.last <= span.upto
        if has_gaps or not is_inside or (strict and found.rows != span.count):
            raise _wrong(name, _seq_text(span), found)
        counts.events += found.rows
        counts.skipped += span.count - found.rows
    return counts


def _check_begin(planned: PlannedBatch, name: str, mark: Mark | None, counts: VerifiedCounts, *, strict: bool) -> None:
    after = planned.spans[name].after
    if mark is None or mark.seq == after:
        return
    if strict or name not in planned.end.jumps:
        raise StoreUnavailable(
            f"the history holds {name} up to seq {mark.seq:,}, and this batch goes on after {after:,}; nothing was"
            " added: start again to go on where the history ends, or give fail_on_loss=False to go on with what is"
            " there"
        )
    counts.skipped += max(after - mark.seq, 0)
    counts.lost += max(mark.seq - after, 0)


def _seq_text(span: SeqSpan) -> str:
    return f"seq {span.after + 1:,} to {span.upto:,}"


def _wrong(name: str, wanted: str, found: StoredRange | None) -> StoreUnavailable:
    content = "nothing" if found is None else f"seq {found.first:,} to {found.last:,} in {found.rows:,} rows"
    if found is not None and found.rows != found.distinct:
        content += f" of which {found.rows - found.distinct:,} are doubles"
    return StoreUnavailable(
        f"a batch was to hold {wanted} of {name}, and its files hold {content}; nothing was added: start again; if"
        " it comes back, check that all executors read the same store"
    )
