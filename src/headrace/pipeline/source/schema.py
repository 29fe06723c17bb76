"""Defines the columns of all reads once, for Spark and for Arrow."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.model.errors import BadConfig
from headrace.model.event import LINE_COLUMNS
from headrace.model.validate import cut
from headrace.pipeline.source.options import SourceOptions

INSTANT = pa.timestamp("us", tz="UTC")


class Column(Struct, frozen=True):
    """A column with its types in Spark and Arrow."""

    name: str
    spark: DataType
    arrow: Any


class Table(Struct, frozen=True, dict=True):
    """Columns in their order."""

    columns: tuple[Column, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def spark(self) -> StructType:
        return StructType([StructField(column.name, column.spark) for column in self.columns])

    @cached_property
    def arrow(self) -> Any:
        return pa.schema([pa.field(column.name, column.arrow) for column in self.columns])

    def pick(self, names: Sequence[str]) -> "Table":
        """The columns of these names in this order; all columns without names."""
        known = {column.name: column for column in self.columns}
        for name in names:
            if name not in known:
                raise BadConfig(
                    f"option columns names {cut(name)!r}, which does not exist; known columns: {', '.join(known)}"
                )
        return Table(tuple(known[name] for name in names)) if names else self

    def without(self, names: Sequence[str]) -> "Table":
        """All columns but these."""
        return Table(tuple(column for column in self.columns if column.name not in names))


def _text(name: str) -> Column:
    return Column(name, StringType(), pa.string())


def _int(name: str) -> Column:
    return Column(name, IntegerType(), pa.int32())


def _long(name: str) -> Column:
    return Column(name, LongType(), pa.int64())


def _flag(name: str) -> Column:
    return Column(name, BooleanType(), pa.bool_())


def _instant(name: str) -> Column:
    return Column(name, TimestampType(), INSTANT)


def _texts(name: str) -> Column:
    # With the names that Spark gives the parts of a map, which must match exactly.
    return Column(name, MapType(StringType(), StringType()), pa.map_(pa.string(), pa.field("value", pa.string())))


_SHARD = (_text("tenant"), _text("queue"), _int("shard"))
_ERROR = (_text("error_class"), _text("error_message"))

PLACE: tuple[Column, ...] = (*_SHARD, _long("epoch"), _long("seq"), _instant("happened_at"))
"""The position and time of an event, from its entry."""

LINE: tuple[Column, ...] = (
    _text("event"),
    _text("id"),
    _text("kind"),
    _text("tag"),
    _int("priority"),
    _int("attempts"),
    _int("stalls"),
    _long("fence"),
    _text("worker"),
    _instant("run_at"),
    _instant("enqueued_at"),
    _long("wait_ms"),
    _long("run_ms"),
    _text("reason"),
    _long("dead_letter"),
    *_ERROR,
    _int("payload_bytes"),
    _long("version"),
    _text("payload"),
)
"""The fields of an event, in the order of `headrace.model.event.Line`."""

JOURNAL_CARRIED = Table((*PLACE, *LINE))
"""The journal with the payloads that some events carry."""
JOURNAL = JOURNAL_CARRIED.without(["payload"])
JOURNAL_PAYLOADS = Table((_text("payload"), _text("result")))
"""The columns that `payloads=true` adds to the journal; payloads that events do not carry are looked up."""

JOBS = Table(
    (
        *_SHARD,
        _text("id"),
        _text("state"),
        _text("kind"),
        _text("tag"),
        _int("priority"),
        _int("attempts"),
        _int("stalls"),
        _instant("enqueued_at"),
        _instant("run_at"),
        _instant("ended_at"),
        _long("fence"),
        _text("worker"),
        _instant("lease_expires_at"),
        _flag("cancel_asked"),
        _text("reason"),
        _long("dead_letter"),
        *_ERROR,
        _int("payload_bytes"),
        _text("payload"),
        _texts("headers"),
        _text("result"),
        _long("epoch"),
        _long("as_of_seq"),
    )
)
"""One row per record: an id may be active and blocked, and also have a finished job and dead letters."""

RESULTS = Table(
    (
        *_SHARD,
        _long("epoch"),
        _long("seq"),
        _text("id"),
        _text("outcome"),
        _text("kind"),
        _text("tag"),
        _int("attempts"),
        _int("stalls"),
        _instant("enqueued_at"),
        _instant("ended_at"),
        _flag("kept"),
        _text("result"),
    )
)
"""In a batch, `seq` is the last seq of the journal when the row was read; in a stream, that of the `done` event."""

DEAD = Table(
    (
        *_SHARD,
        _long("dead_letter"),
        _text("id"),
        _text("kind"),
        _text("tag"),
        _int("priority"),
        _int("attempts"),
        _int("stalls"),
        _text("reason"),
        *_ERROR,
        _instant("enqueued_at"),
        _instant("died_at"),
        _instant("kept_until"),
        _int("payload_bytes"),
        _text("payload"),
        _texts("headers"),
        _long("epoch"),
        _long("as_of_seq"),
    )
)

FEED = Table(
    (
        _text("tenant"),
        _text("feed"),
        _text("birth"),
        _long("epoch"),
        _long("seq"),
        _instant("happened_at"),
        _text("event"),
        _text("id"),
        _text("item"),
        _long("position"),
        _text("place"),
        _text("neighbour"),
        _text("reason"),
        _text("instance"),
    )
)
"""In a batch, each row is an item: event `present`, its `position` from 0, and the last `seq` of the log. In a stream,
each row is a change."""

TABLES: dict[str, Table] = {"journal": JOURNAL, "jobs": JOBS, "results": RESULTS, "dead": DEAD, "feed": FEED}
PAYLOAD_COLUMNS = ("payload", "headers", "result")
"""The columns of jobs and dead letters that `payloads=false` leaves out."""

SPARK_SCHEMA = JOURNAL.spark
ARROW_SCHEMA = JOURNAL.arrow

JSON_SCHEMA = pa.schema(
    [
        pa.field(written, pa.int64() if pa.types.is_timestamp(column.arrow) else column.arrow)
        for written, column in zip(LINE_COLUMNS, LINE, strict=True)
    ]
)
"""A line of the journal: the same columns, with instants as milliseconds and the names of the JSON."""


def table_of(options: SourceOptions) -> Table:
    """The columns of a read."""
    table = TABLES[options.what]
    if not options.payloads and options.what in ("jobs", "dead"):
        table = table.without(PAYLOAD_COLUMNS)
    if options.payloads and options.what == "journal":
        table = Table((*JOURNAL.columns, *JOURNAL_PAYLOADS.columns))
    return table.pick(options.columns)
