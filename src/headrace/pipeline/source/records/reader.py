"""Reads records for Spark as they are: jobs, results or dead letters."""

from asyncio import Runner
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headrace.model.names import Shard
from headrace.model.queue_config import DEFAULT_CONFIG
from headrace.model.results import Found, Group, Scan
from headrace.pipeline.source.building import gathered
from headrace.pipeline.source.filters import Pushing
from headrace.pipeline.source.machine import LocalPartition, check_here
from headrace.pipeline.source.opening import opened
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.records.plan import ShardGroups, plan
from headrace.pipeline.source.records.rows import RecordRows
from headrace.pipeline.source.schema import Table
from headrace.stores.contract.store import Store


class RecordPart(LocalPartition):
    """What one task goes through."""

    def __init__(self, held: tuple[ShardGroups, ...]) -> None:
        super().__init__(held)
        self.held = held


class RecordReader(Pushing):
    """The records of the queues that the options name, each part of them as it is when it is read."""

    def __init__(self, options: SourceOptions, table: Table) -> None:
        self._options = options
        self._table = table

    def partitions(self) -> list[InputPartition]:
        with opened(self._options.url) as (runner, store):
            return [RecordPart(held) for held in runner.run(plan(store, self._options, self.filters))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark hands a partition of its own making to a read that has none.
        if isinstance(partition, RecordPart):
            check_here(self._options.url, partition.planned_on)
            yield from gathered(map(self.filters.rows, self._batches(partition.held)))

    def _batches(self, held: Sequence[ShardGroups]) -> Iterator[pa.RecordBatch]:
        with opened(self._options.url) as (runner, store):
            for each in held:
                config = DEFAULT_CONFIG
                if "priority" in self._table.names:
                    config = runner.run(store.queues.configuration(each.shard.queue))
                rows = RecordRows(self._table, each.shard, config)
                for group in each.groups:
                    for part in scanned(runner, store, each.shard, group):
                        yield from _rows(rows, group, part)


def scanned(runner: Runner, store: Store, shard: Shard, group: Group) -> Iterator[Scan]:
    """The parts of a scan, each thing once, as it was first seen."""
    seen: set[int] = set()
    cursor = None
    while True:
        # A part is a transaction of its own: a long one would keep SQLite's log from being cut.
        part = runner.run(store.reads.scan(shard, group, cursor=cursor))
        fresh = []
        for found in part.rows:
            # A million hashes are some 60 MB, a million ids could be 300.
            key = found.dead_letters[0].key.number if group == "dead" else hash(found.id)
            if key not in seen:
                seen.add(key)
                fresh.append(found)
        yield Scan(part.epoch, part.as_of_seq, fresh, part.cursor)
        if part.cursor is None:
            return
        cursor = part.cursor


def _rows(rows: RecordRows, group: Group, part: Scan) -> Iterator[pa.RecordBatch]:
    found: list[Found] = part.rows
    as_of: dict[str, object] = {"epoch": part.epoch, "as_of_seq": part.as_of_seq, "seq": part.as_of_seq}
    if group == "alive":
        yield rows.of_alive(found, as_of)
        yield rows.of_blocked_jobs([each.blocked_job for each in found if each.blocked_job is not None], as_of)
    elif group == "ended":
        yield rows.of_finished_jobs([each.finished_job for each in found if each.finished_job is not None], as_of)
    else:
        yield rows.of_dead_letters([dead_letter for each in found for dead_letter in each.dead_letters], as_of)
