"""Measures how far each table of a data folder is behind its store, by queue."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from headrace.model.errors import StoreUnavailable
from headrace.model.event import Bounds
from headrace.model.names import Shard
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.event_source import history_source
from headrace.pipeline.history.table import APP, HistoryState, read_state
from headrace.pipeline.source.discovery import find_queues
from headrace.pipeline.source.journal.offset import Mark
from headrace.pipeline.source.journal.ranges import bounds_of
from headrace.pipeline.source.options import ALL, SourceOptions
from headrace.pipeline.source.store_access import connect
from headrace.pipeline.stats.table import state_of, stats_table
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import open_log
from headrace.pipeline.tables.increment import mark_of
from headrace.pipeline.tables.write import table_of
from headrace.stores.contract.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DERIVED = ("jobs", "attempts", "errors", "usage")
"""Tables that store the last batch of the history that they contain."""
VERSIONS_MAX = 30
"""Versions of the history's log to open for a batch: a table that is further behind is left out."""
SCHEMA = (
    "table_name string, tenant string, queue string, events_behind bigint, behind_ms bigint, read_until timestamp,"
    " store_until timestamp, as_of timestamp"
)


class ReadPosition(Struct, frozen=True):
    """The last event of a shard in a table."""

    seq: int
    at_ms: int | None = None
    """When it happened, if the table stores that."""


class Freshness(Struct, frozen=True, kw_only=True):
    """How far a table is behind the events of a queue."""

    table_name: str
    tenant: str
    queue: str
    events_behind: int
    """Events in the store's journal that are not in the table."""
    behind_ms: int | None
    """From the last event in the table to the last one in the store; 0 for a current table, None if the time is
    unknown."""
    read_until_ms: int | None
    """The time of the last event in the table."""
    store_until_ms: int | None
    """The time of the last event of the queue; None for an empty journal."""
    as_of_ms: int


def freshness(url: str, data_dir: DataDir, *, tenant: str = ALL, queue: str = ALL) -> list[Freshness]:
    """Compare the tables of a data folder with the store at `url`, if they store how far they have read.

    Returns the tables that are furthest behind first. Needs no Spark.
    """
    options = SourceOptions.parse({"url": url, "tenant": tenant, "queue": queue})
    with connect(url) as (runner, store):
        return runner.run(_measure(store, options, data_dir))


async def _measure(store: Store, options: SourceOptions, data_dir: DataDir) -> list[Freshness]:
    # Read before the store, so that a table cannot seem to be ahead of it.
    known = positions_of(data_dir)
    queues = await find_queues(store, options)
    bounds = await bounds_of(store.journal, [shard for each in queues for shard in each.all_shards()])
    as_of_ms = await store.now_ms()
    found = [each for table, positions in known.items() for each in compare(table, positions, bounds, as_of_ms)]
    return sorted(found, key=lambda each: (-each.events_behind, each.table_name, each.tenant, each.queue))


def positions_of(data_dir: DataDir) -> dict[str, dict[str, ReadPosition]]:
    """How far each table has read each shard, by `tenant/queue/shard`.

    A table from the whole history has read the events of the history at its last batch. Tables from a part of it or
    from a journal are left out, and those that are many batches behind."""
    found: dict[str, dict[str, ReadPosition]] = {}
    history = read_state(data_dir.history)
    if history is not None:
        found["history"] = _positions(history.shards)
        whole = history_source(data_dir)
        for name in DERIVED:
            now = table_of(data_dir, name).version()
            mark = None if now is None else mark_of(now)
            if mark is not None and mark.source == whole:
                shards = history.shards if mark.batch == history.batch else _shards_at(data_dir.history, mark.batch)
                found |= {} if shards is None else {name: _positions(shards)}
    stats = state_of(stats_table(data_dir.location("stats")).version())
    if stats is not None:
        found["stats"] = {name: ReadPosition(ranges[-1].last) for name, ranges in stats.counted.items() if ranges}
    return found


def _positions(shards: Mapping[str, Mark]) -> dict[str, ReadPosition]:
    return {name: ReadPosition(mark.seq, mark.at_ms or None) for name, mark in shards.items()}


def _shards_at(history: Location, batch: int) -> dict[str, Mark] | None:
    """Where a batch of the history ended, by the last versions of its log; None when these do not tell."""
    log = open_log(history)
    newest = log.load()
    for number in range(newest.number if newest is not None else -1, -1, -1)[:VERSIONS_MAX]:
        try:
            version = log.load(number)
            stored = version.state(APP) if version is not None and version.batch(APP) == batch else None
        except StoreUnavailable:  # a version of which a clean-up has removed something
            return None
        if stored is not None:
            return msgspec.convert(stored, HistoryState).shards
    return None


def compare(
    table: str, positions: Mapping[str, ReadPosition], bounds: Mapping[Shard, Bounds], as_of_ms: int
) -> Iterator[Freshness]:
    """A table's freshness in each queue, summed over its shards."""
    shards: dict[tuple[str, str], list[tuple[Bounds, ReadPosition]]] = defaultdict(list)
    for shard, there in bounds.items():
        queue = shard.queue
        name = f"{queue.tenant}/{queue.full_name}/{shard.index}"
        shards[queue.tenant, queue.full_name].append((there, positions.get(name, ReadPosition(0))))
    for (tenant, name), pairs in shards.items():
        behind = sum(_events_behind(*pair) for pair in pairs)
        store_until_ms = max((each.last_at_ms for each, _ in pairs if each.last_at_ms is not None), default=None)
        read_until_ms = max((each.at_ms for _, each in pairs if each.at_ms is not None), default=None)
        behind_ms = None
        if not behind:
            read_until_ms, behind_ms = store_until_ms, 0
        elif store_until_ms is not None and read_until_ms is not None:
            behind_ms = max(store_until_ms - read_until_ms, 0)
        yield Freshness(
            table_name=table,
            tenant=tenant,
            queue=name,
            events_behind=behind,
            behind_ms=behind_ms,
            read_until_ms=read_until_ms,
            store_until_ms=store_until_ms,
            as_of_ms=as_of_ms,
        )


def freshness_frame(spark: "SparkSession", found: Sequence[Freshness]) -> "DataFrame":
    """The same as a DataFrame: `table_name tenant queue events_behind behind_ms read_until store_until as_of`."""
    from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

    schema = SCHEMA.replace("until timestamp", "until_ms bigint").replace("as_of timestamp", "as_of_ms bigint")
    instants = ("read_until", "store_until", "as_of")
    frame = spark.createDataFrame([tuple(asdict(each).values()) for each in found], schema)
    return frame.select(*frame.columns[:5], *(F.timestamp_millis(f"{name}_ms").alias(name) for name in instants))


def _events_behind(there: Bounds, known: ReadPosition) -> int:
    """Kept events of a shard that are not in the table: all of them if the journal was created again."""
    seq = known.seq if known.seq <= there.last_seq else 0
    return there.last_seq - max(seq, there.first_seq - 1)
