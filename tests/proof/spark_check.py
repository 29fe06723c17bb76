"""What a history must be: the journal, each event once; counted by Spark and by DuckDB, and looked at row by row."""

from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
from msgspec import Struct
from pyarrow.dataset import dataset, partitioning

from headrace.model.event import Event, columns
from headrace.model.names import Shard
from headrace.pipeline.history.table import history_files
from headrace.pipeline.storage.location import Location
from headrace.stores.contract.store import Store

IDENTITY = ("tenant", "queue", "shard", "epoch", "seq")
EVERY = 13
"""Of so many rows one is compared column by column."""
Key = tuple[str, str, int, int, int]


class Found(Struct):
    """What a reader of the files has counted."""

    rows: int = 0
    distinct: int = 0
    missing: int = 0
    duplicate: int = 0
    unknown: int = 0
    """Rows that are no event of the journal."""

    @property
    def is_right(self) -> bool:
        """Whether that is the journal."""
        return self.rows == self.distinct > 0 == self.missing + self.duplicate + self.unknown


async def shards_of(store: Store) -> list[Shard]:
    """Every shard that there is; a proof has few."""
    tenants = (await store.queues.tenants()).rows
    queues = [queue for tenant in tenants for queue in (await store.queues.names(tenant)).rows]
    return [shard for queue in queues for shard in queue.all_shards()]


async def journal_of(store: Store) -> dict[Key, Event]:
    """Every event, from the store's own journal."""
    found: dict[Key, Event] = {}
    for shard in await shards_of(store):
        after, upto = 0, (await store.journal.bounds(shard)).last_seq
        while after < upto:
            entries = await store.journal.read(shard, after, upto)
            for event in (event for entry in entries for event in entry.events(shard)):
                found[key_of(columns(event))] = event
            after = entries[-1].last_seq
    return found


def key_of(row: dict[str, Any]) -> Key:
    """Which event a row is."""
    return row["tenant"], row["queue"], row["shard"], row["epoch"], row["seq"]


async def behind(store: Store, consumer: str) -> int:
    """By how many events a consumer's places are behind the ends of all journals."""
    found = 0
    for shard in await shards_of(store):
        places = {each.name: each.seq for each in await store.journal.consumers(shard)}
        found += (await store.journal.bounds(shard)).last_seq - places.get(consumer, 0)
    return found


def ask_duckdb(location: Location, what: str) -> Any:
    """What DuckDB reads in the files that count, as an Arrow table; on object storage they are brought to it."""
    files = history_files(location)
    source = f"read_parquet({files}, hive_partitioning = true, hive_types = {{'day': DATE}})"
    with duckdb.connect() as connection:
        # Several threads would only hold up what is looked at.
        connection.execute("SET threads = 1")
        if not location.is_local:
            of_paths = partitioning(pa.schema([("day", pa.date32())]), flavor="hive")
            paths = [file.removeprefix("s3://") for file in files]
            rows = dataset(paths, filesystem=location.filesystem()[0], partitioning=of_paths, format="parquet")
            connection.register("events", rows.to_table())
            source = "events"
        by = f" GROUP BY {', '.join(IDENTITY)}" if "count(*)" in what else ""
        return connection.sql(f"{what} FROM {source}{by}").to_arrow_table()


def counted_by_duckdb(location: Location) -> Any:
    """Each event that the files hold, and how often."""
    return ask_duckdb(location, f"SELECT {', '.join(IDENTITY)}, count(*) AS count")


def compare(journal: dict[Key, Event], counted: Any) -> Found:
    """Set what was counted beside what there is."""
    counts = {key_of(row): int(row["count"]) for row in counted.to_pylist()}
    return Found(
        rows=sum(counts.values()),
        distinct=len(counts),
        missing=len(journal.keys() - counts.keys()),
        duplicate=sum(counts.values()) - len(counts),
        unknown=len(counts.keys() - journal.keys()),
    )


def wrong_rows(location: Location, journal: dict[Key, Event]) -> int:
    """How many of a sample of rows differ from the store's own events, or lie under another day than their own."""
    rows = ask_duckdb(location, "SELECT * EXCLUDE batch").to_pylist()
    days = sum(1 for row in rows if row["day"] != row["happened_at"].astimezone(UTC).date())
    sample = [row for at, row in enumerate(rows) if at % EVERY == 0]
    return days + sum(1 for row in sample if not _is_same(row, journal.get(key_of(row))))


def _is_same(row: dict[str, Any], event: Event | None) -> bool:
    return event is not None and {name: row[name] for name in row if name != "day"} == {
        _written_name(name): _instant(value) if name.endswith("at_ms") else value
        for name, value in columns(event).items()
        if name != "payload" or name in row
    }


def _written_name(name: str) -> str:
    if name == "at_ms":
        return "happened_at"
    return name.removesuffix("_ms") if name.endswith("_at_ms") else name


def _instant(ms: object) -> datetime | None:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms) if isinstance(ms, int) else None
