"""Plays Spark to a stream, in this process: a checkpoint, batches, restarts, and tasks on pickled readers."""

import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

from pyspark.sql.datasource import CaseInsensitiveDict

from headrace.pipeline.source.source import HeadraceSource

Row = dict[str, Any]


class Checkpoint:
    """What Spark keeps of a query: the end of each batch, and which of them were run to their end."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.run = 0

    @property
    def last(self) -> dict[str, Any]:
        """The last offset that was written."""
        found: dict[str, Any] = json.loads(self.ends[-1])
        return found


class Playing:
    """One run of a query from a checkpoint on."""

    def __init__(self, checkpoint: Checkpoint, options: dict[str, str], *, available_now: bool = False) -> None:
        source = HeadraceSource(CaseInsensitiveDict(options))
        # Its type is that of Spark's base class, which lacks what streams may offer besides.
        self.reader: Any = cast("Any", source.streamReader(source.schema()))
        self.checkpoint = checkpoint
        self.partitions = 0
        """How many tasks the last batch had."""
        if available_now:
            self.reader.prepareForTriggerAvailableNow()

    def batch(self) -> list[Row] | None:
        """The rows of the next batch; None when there is nothing new. A batch that failed is run again first."""
        kept = self.checkpoint
        if kept.run == len(kept.ends):
            begin = self._begin()
            end = json.dumps(self.reader.latestOffset(begin, self.reader.getDefaultReadLimit()))
            if kept.ends and end == kept.ends[-1]:
                return None
            kept.ends.append(end)
        return self._run()

    def rest(self) -> list[list[Row]]:
        """All batches up to the head."""
        return list(iter(self.batch, None))

    def a_second_later(self) -> None:
        """Let new queues be looked for again, without waiting for it."""
        self.reader._follow()._shards._found_at_ms = None

    def _begin(self) -> dict[str, Any]:
        done = self.checkpoint.run
        begin: dict[str, Any] = json.loads(self.checkpoint.ends[done - 1]) if done else self.reader.initialOffset()
        return begin

    def _run(self) -> list[Row]:
        parts = self.reader.partitions(self._begin(), json.loads(self.checkpoint.ends[self.checkpoint.run]))
        self.partitions = len(parts)
        rows: list[Row] = []
        for part in parts:
            task, copy = pickle.loads(pickle.dumps((self.reader, part)))  # noqa: S301  (as Spark does)
            for batch in task.read(copy):
                assert batch.schema == self.reader.table.arrow
                rows += batch.to_pylist()
        self.checkpoint.run += 1
        return rows


@contextmanager
def playing(checkpoint: Checkpoint | None = None, *, available_now: bool = False, **options: str) -> Iterator[Playing]:
    """A run of a query, stopped at the end."""
    run = Playing(checkpoint or Checkpoint(), options, available_now=available_now)
    try:
        yield run
    finally:
        run.reader.stop()


def places(rows: list[Row]) -> list[tuple[str, int]]:
    """Queue and seq of each row."""
    return [(row["queue"], row["seq"]) for row in rows]


def ids(batches: list[list[Row]]) -> list[str]:
    """The ids of all rows of some batches."""
    return [row["id"] for batch in batches for row in batch]
