"""Reads records for Spark as they are now: jobs, results or dead letters, by scan or by id."""

import asyncio
from asyncio import Runner
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.datasource import InputPartition

from headrace.model.errors import Refused
from headrace.model.event import Bounds
from headrace.model.job import State, check_id
from headrace.model.limits import BATCH_MAX, LOOKS_AT_ONCE, PAGE_MAX
from headrace.model.names import Queue, Shard
from headrace.model.policy import DEFAULT_CONFIG, QueueConfig
from headrace.model.results import ALL_IDS, Counts, Found, Group, IdRange, Scan
from headrace.pipeline.source.arrow import coalesce
from headrace.pipeline.source.discovery import find_queues
from headrace.pipeline.source.filters import FilteredReader, FilterPushdown, Filters
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.partitioning import HostPartition, pack
from headrace.pipeline.source.records.rows import RecordRows
from headrace.pipeline.source.schema import Table
from headrace.pipeline.source.store_access import check_host, connect
from headrace.stores.contract.store import Store

TRIES_MAX = 10
"""Tries to find records while their journals move."""
STATES: dict[Group, tuple[State, ...]] = {
    "alive": (State.WAITING, State.ACTIVE, State.BLOCKED),
    "ended": (State.DONE, State.CANCELLED),
    "dead": (State.DEAD,),
}
"""The states of each group, in the order of a scan: a job that ends meanwhile is shown twice rather than not at all."""
_OF_PAYLOADS = ("payload", "payload_bytes", "result")
"""Columns that need payloads or results."""
_ALIVE = (State.WAITING, State.ACTIVE)


class RecordLookup(Struct, frozen=True):
    """Ids of one queue to find in one call."""

    queue: Queue
    ids: tuple[str, ...]


class ShardScan(Struct, frozen=True):
    """Groups of one shard, to scan in this order."""

    shard: Shard
    groups: tuple[Group, ...]
    ids: IdRange = ALL_IDS


async def plan(
    store: Store, options: SourceOptions, filters: Filters
) -> list[tuple[ShardScan, ...]] | list[tuple[RecordLookup, ...]]:
    """The scans of each task, with about equal counts of rows; lookups if the filters name ids.

    A large shard is cut into ranges of ids if its store can. An id stays in one task, which scans the groups in order;
    only if there are fewer ranges than `minPartitions` is each group a task, and jobs that end meanwhile may be
    missing."""
    groups = groups_to_read(options, filters)
    queues = [
        queue
        for queue in await find_queues(store, options)
        if filters.allows("tenant", queue.tenant) and filters.allows("queue", queue.full_name)
    ]
    lookups = plan_lookups(queues, filters) if groups else []
    if lookups is not None:
        return pack(((each, len(each.ids)) for each in lookups), options.partitions_min, options.partition_events_max)
    counted = zip(queues, await _counts(store, queues), strict=True)
    # A query with this column compares rows with the journal, as the audit does: counters may be wrong.
    is_check = "as_of_seq" in options.columns
    sizes = {
        shard: {group: _size(counts, group, queue) for group in groups}
        for queue, counts in counted
        if is_check or any(_size(counts, group, queue) for group in STATES)
        for shard in queue.all_shards()
        if filters.allows("shard", shard.index)
    }
    scans = [
        (ShardScan(shard, groups, ids), sum(counts.values()) // len(ranges))
        for shard, counts in sizes.items()
        for ranges in [await _ranges(store, shard, counts, options.partition_events_max)]
        for ids in ranges
    ]
    if options.partitions_min <= len(scans):
        return pack(scans, options.partitions_min, options.partition_events_max)
    pairs = [(ShardScan(shard, (group,)), size) for shard, counts in sizes.items() for group, size in counts.items()]
    return pack(pairs, options.partitions_min, options.partition_events_max)


async def _ranges(store: Store, shard: Shard, sizes: Mapping[Group, int], rows_max: int) -> list[IdRange]:
    """Ranges of ids with about `rows_max` jobs each; dead letters, which have no order by id, do not count."""
    parts = -(-sum(size for group, size in sizes.items() if group != "dead") // rows_max)
    if parts <= 1:
        return [ALL_IDS]
    cuts = await store.reads.split_ids(shard, min(parts, PAGE_MAX))
    return [IdRange(after, upto) for after, upto in zip(["", *cuts], [*cuts, None], strict=True)]


def groups_to_read(options: SourceOptions, filters: Filters) -> tuple[Group, ...]:
    """The groups whose rows can pass the filters."""
    if options.what == "dead":
        return ("dead",)
    if options.what == "results":
        has_outcome = any(filters.allows("outcome", state.value) for state in STATES["ended"])
        return ("ended",) if has_outcome and filters.allows("kept", True) else ()
    return tuple(
        group for group, states in STATES.items() if any(filters.allows("state", state.value) for state in states)
    )


async def _counts(store: Store, queues: Sequence[Queue]) -> list[Counts]:
    found: list[Counts] = []
    for first in range(0, len(queues), LOOKS_AT_ONCE):
        found += await asyncio.gather(*map(store.queues.counts, queues[first : first + LOOKS_AT_ONCE]))
    return found


def _size(counts: Counts, group: Group, queue: Queue) -> int:
    """The approximate number of rows of a group in a shard: ids are spread evenly."""
    total: int = sum(getattr(counts, state.value) for state in STATES[group])
    return -(-total // queue.shards)


class RecordPartition(HostPartition):
    """The scans or lookups of one task."""

    def __init__(self, work: tuple[ShardScan, ...] | tuple[RecordLookup, ...]) -> None:
        super().__init__(work)
        self.work = work


class RecordReader(FilteredReader):
    """The records of the selected queues, each part as of the instant of its read."""

    def __init__(self, options: SourceOptions, table: Table) -> None:
        self._options = options
        self._table = table

    def partitions(self) -> list[InputPartition]:
        with connect(self._options.url) as (runner, store):
            return [RecordPartition(work) for work in runner.run(plan(store, self._options, self.filters))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # For an empty read, Spark passes a partition of another type.
        if isinstance(partition, RecordPartition):
            check_host(self._options.url, partition.planned_on)
            yield from coalesce(map(self.filters.rows, self._batches(partition.work)))

    def _batches(self, work: Sequence[ShardScan | RecordLookup]) -> Iterator[pa.RecordBatch]:
        with connect(self._options.url) as (runner, store):
            for each in work:
                if isinstance(each, RecordLookup):
                    yield from self._looked_up(runner, store, each)
                else:
                    yield from self._scanned(runner, store, each)

    def _scanned(self, runner: Runner, store: Store, work: ShardScan) -> Iterator[pa.RecordBatch]:
        rows = RecordRows(self._table, work.shard, self._config(runner, store, work.shard.queue))
        payloads = any(name in self._table.names for name in _OF_PAYLOADS)
        for group in work.groups:
            for part in scan_parts(runner, store, work, group, payloads=payloads):
                yield from _rows(rows, group, part)

    def _looked_up(self, runner: Runner, store: Store, work: RecordLookup) -> Iterator[pa.RecordBatch]:
        with_seq = any(name in self._table.names for name in ("epoch", "as_of_seq", "seq"))
        config = self._config(runner, store, work.queue)
        for part in runner.run(look_up(store, work, with_seq=with_seq)):
            rows = RecordRows(self._table, part.shard, config)
            for group in groups_to_read(self._options, self.filters):
                yield from _rows(rows, group, Scan(part.epoch, part.seq, part.found, None))

    def _config(self, runner: Runner, store: Store, queue: Queue) -> QueueConfig:
        if "priority" not in self._table.names:
            return DEFAULT_CONFIG
        return runner.run(store.queues.configuration(queue))


class FilteredRecordReader(FilterPushdown, RecordReader):
    """The same reader with filter pushdown."""


def scan_parts(runner: Runner, store: Store, work: ShardScan, group: Group, *, payloads: bool = True) -> Iterator[Scan]:
    """The parts of a scan, each record once, as first seen."""
    seen: set[int] = set()
    cursor = None
    while True:
        # Each part is a transaction: a long one would keep SQLite from truncating its log.
        part = runner.run(store.reads.scan(work.shard, group, ids=work.ids, payloads=payloads, cursor=cursor))
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
        yield rows.of_alive([each for each in found if each.state in _ALIVE], as_of)
        yield rows.of_blocked_jobs([each.blocked_job for each in found if each.blocked_job is not None], as_of)
    elif group == "ended":
        yield rows.of_finished_jobs([each.finished_job for each in found if each.finished_job is not None], as_of)
    else:
        yield rows.of_dead_letters([dead_letter for each in found for dead_letter in each.dead_letters], as_of)


def plan_lookups(queues: Sequence[Queue], filters: Filters) -> list[RecordLookup] | None:
    """The lookups; None if the filters do not name ids."""
    values = filters.values("id")
    if values is None:
        return None
    ids = sorted(value for value in values if isinstance(value, str))
    found = []
    for queue in queues:
        own = [id for id in ids if _is_id(id, queue) and filters.allows("shard", queue.index_of(id))]
        found += [RecordLookup(queue, tuple(own[start : start + BATCH_MAX])) for start in range(0, len(own), BATCH_MAX)]
    return found


def _is_id(id: str, queue: Queue) -> bool:
    try:
        check_id(id, queue)
    except Refused:
        return False
    return True


class ShardRecords(Struct, frozen=True):
    """The found records of a shard, with the seq of its journal."""

    shard: Shard
    found: list[Found]
    epoch: int
    seq: int


async def look_up(store: Store, lookup: RecordLookup, *, with_seq: bool) -> list[ShardRecords]:
    """The records of the ids, by shard; `with_seq` with the seq of the journal at that time."""
    queue = lookup.queue
    shards = sorted({queue.shard_of(id) for id in lookup.ids})
    bounds: dict[Shard, Bounds] = {}
    found: Sequence[Found | None] = ()
    latest = await _bounds(store, shards) if with_seq else {}
    # Records that keep moving are as of the last bounds before them, or newer.
    for _ in range(TRIES_MAX):
        bounds, found = latest, await store.reads.find(queue, lookup.ids)
        latest = await _bounds(store, shards) if with_seq else {}
        if not await _has_moved(store, bounds, latest, lookup.ids):
            bounds = latest
            break
    by_shard: dict[Shard, list[Found]] = {}
    for each in found:
        if each is not None:
            by_shard.setdefault(queue.shard_of(each.id), []).append(each)
    none = Bounds(0, 1, 0, None, None, 0)
    return [
        ShardRecords(shard, some, bounds.get(shard, none).epoch, bounds.get(shard, none).last_seq)
        for shard, some in sorted(by_shard.items())
    ]


async def _bounds(store: Store, shards: Sequence[Shard]) -> dict[Shard, Bounds]:
    return dict(zip(shards, await store.journal.all_bounds(shards), strict=True))


async def _has_moved(store: Store, before: dict[Shard, Bounds], after: dict[Shard, Bounds], ids: Sequence[str]) -> bool:
    """Whether an event of one of the ids lies between two bounds of the journals."""
    for shard, now in after.items():
        seq = before[shard].last_seq
        if now.epoch != before[shard].epoch or now.last_seq < seq:
            return True
        while seq < now.last_seq:
            entries = await store.journal.read(shard, seq, now.last_seq)
            if not entries or entries[0].first_seq > seq + 1:
                return True  # dropped already
            if any(event.line.id in ids for entry in entries for event in entry.events(shard)):
                return True
            seq = entries[-1].last_seq
    return False
