"""Builds Arrow batches from Python values, for the selected columns only and one batch ahead of Spark."""

import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from queue import Queue
from typing import TypeVar

import pyarrow as pa

from headrace.pipeline.source.schema import INSTANT, Column, Table

ROWS_PER_BATCH = 20_000
BYTES_PER_BATCH = 8 * 1024 * 1024
"""A batch ends at whichever limit comes first: large enough to amortise its transfer, small in any memory."""


def build_batch(table: Table, count: int, values: Mapping[str, object]) -> pa.RecordBatch:
    """A batch of `count` rows with the columns of `table`.

    `values` has, for a column, one value for all rows, or a function that returns the list or array of its values. A
    column without an entry is null.
    """
    arrays = [_array(column, count, values.get(column.name)) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.arrow)


def _array(column: Column, count: int, values: object) -> pa.Array:
    if values is None:
        return pa.nulls(count, column.arrow)
    if not callable(values):
        return pa.repeat(pa.scalar(values, column.arrow), count)
    found = values()
    return found if isinstance(found, pa.Array) else pa.array(found, column.arrow)


def instants(millis: Iterable[int | None]) -> pa.Array:
    """Milliseconds since 1970 as instants."""
    return pa.array(millis, pa.int64()).cast(pa.timestamp("ms", tz="UTC")).cast(INSTANT)


def texts(values: Sequence[bytes | None]) -> pa.Array:
    """Bytes as texts; null for invalid UTF-8, which only a custom codec writes."""
    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in values], pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def coalesce(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in larger batches; empty ones are left out."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows == 0:
            continue
        pending.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= ROWS_PER_BATCH or size >= BYTES_PER_BATCH:
            yield pa.concat_batches(pending)
            pending, rows, size = [], 0, 0
    if pending:
        yield pa.concat_batches(pending)


T = TypeVar("T")
_END = object()


def prefetch(batches: Generator[T, None, None]) -> Generator[T, None, None]:
    """The items of a generator, fetched one ahead in a thread that also closes it. A reader that stops early waits for
    the close, so the generator must not block."""
    ready: Queue[object] = Queue(maxsize=1)
    is_closed = threading.Event()

    def make() -> None:
        last: object = _END
        try:
            for each in batches:
                ready.put(each)
                if is_closed.is_set():
                    break
        except BaseException as error:  # noqa: BLE001  (raised again by the reader)
            last = _Raised(error)
        finally:
            batches.close()
            ready.put(last)

    # A daemon, so that a task killed by Spark does not wait for it.
    thread = threading.Thread(target=make, name="headrace-prefetch", daemon=True)
    thread.start()
    try:
        while (found := ready.get()) is not _END:
            if isinstance(found, _Raised):
                raise found.error
            yield found  # type: ignore[misc]
    finally:
        is_closed.set()
        while thread.is_alive():
            _drain(ready)
            thread.join(0.01)


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


def _drain(ready: "Queue[object]") -> None:
    while not ready.empty():
        ready.get_nowait()
