"""Checks staged files by seq: a batch that lacks an event, or has one twice, is not put into place."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from headrace.model.errors import StoreUnavailable
from headrace.pipeline.history.planned import PlannedBatch, SeqSpan
from headrace.pipeline.source.journal.offset import Mark

_COLUMNS = ["tenant", "shard", "seq"]


class StoredFiles(Struct, frozen=True):
    """What staged files hold of a journal."""

    first: int
    last: int
    rows: int
    distinct: int


class VerifiedCounts(Struct):
    """What a batch adds to the totals of a history."""

    events: int = 0
    skipped: int = 0
    lost: int = 0


def held_by(files: Sequence[Path]) -> dict[str, StoredFiles]:
    """What staged files hold, by `tenant/queue/shard`; read back from the files themselves."""
    if not files:
        return {}
    parts = []
    for file in files:
        with pq.ParquetFile(file, read_dictionary=["tenant"]) as opened:
            rows = opened.read(_COLUMNS)
        queue = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows.num_rows), _queue(file))
        parts.append(rows.append_column("queue", queue))
    rows = pa.concat_tables(parts).unify_dictionaries()
    wanted = [("seq", "min"), ("seq", "max"), ("seq", "count"), ("seq", "count_distinct")]
    found = rows.group_by(["tenant", "queue", "shard"]).aggregate(wanted).to_pylist()
    return {
        f"{row['tenant']}/{row['queue']}/{row['shard']}": StoredFiles(
            row["seq_min"], row["seq_max"], row["seq_count"], row["seq_count_distinct"]
        )
        for row in found
    }


def verify(
    planned: PlannedBatch, held: Mapping[str, StoredFiles], marks: Mapping[str, Mark], *, strict: bool
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
                raise _wrong(name, _told(span), None)
            counts.skipped += span.count
            continue
        has_gaps = found.rows != found.distinct or found.last - found.first + 1 != found.rows
        is_inside = span.after < found.first and found.last <= span.upto
        if has_gaps or not is_inside or (strict and found.rows != span.count):
            raise _wrong(name, _told(span), found)
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
            " added: delete the folder _checkpoint to go on where the history ends, or give fail_on_loss=False to go on"
            " with what is there"
        )
    counts.skipped += max(after - mark.seq, 0)
    counts.lost += max(mark.seq - after, 0)


def _told(span: SeqSpan) -> str:
    return f"seq {span.after + 1:,} to {span.upto:,}"


def _wrong(name: str, wanted: str, found: StoredFiles | None) -> StoreUnavailable:
    told = "nothing" if found is None else f"seq {found.first:,} to {found.last:,} in {found.rows:,} rows"
    if found is not None and found.rows != found.distinct:
        told += f" of which {found.rows - found.distinct:,} are doubles"
    return StoreUnavailable(
        f"a batch was to hold {wanted} of {name}, and its files hold {told}; nothing was added: check that the folder"
        " is the same one, under the same path, on the driver and on all executors, and start again"
    )


def _queue(file: Path) -> pa.Array:
    return pa.array([file.parent.name.removeprefix("queue=")])
