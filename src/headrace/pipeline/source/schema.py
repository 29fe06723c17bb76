"""The columns of the journal as Spark and as Arrow see them, written once."""

from typing import Any

import pyarrow as pa
from msgspec import Struct
from pyspark.sql.types import DataType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

from headrace.model.event import LINE_COLUMNS


class Column(Struct, frozen=True):
    """One column in both worlds."""

    name: str
    spark: DataType
    arrow: Any


def _text(name: str) -> Column:
    return Column(name, StringType(), pa.string())


def _int(name: str) -> Column:
    return Column(name, IntegerType(), pa.int32())


def _long(name: str) -> Column:
    return Column(name, LongType(), pa.int64())


def _instant(name: str) -> Column:
    return Column(name, TimestampType(), pa.timestamp("us", tz="UTC"))


PLACE: tuple[Column, ...] = (
    _text("tenant"),
    _text("queue"),
    _int("shard"),
    _long("epoch"),
    _long("seq"),
    _instant("at"),
)
"""Where and when an event stands: from the entry that holds it."""

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
    _long("letter"),
    _text("error_class"),
    _text("error_message"),
    _int("payload_bytes"),
    _long("version"),
)
"""What an event says, in the order of `headrace.model.event.Line`."""

COLUMNS = PLACE + LINE
SPARK_SCHEMA = StructType([StructField(column.name, column.spark) for column in COLUMNS])
ARROW_SCHEMA = pa.schema([pa.field(column.name, column.arrow) for column in COLUMNS])

JSON_SCHEMA = pa.schema(
    [
        pa.field(written, pa.int64() if pa.types.is_timestamp(column.arrow) else column.arrow)
        for written, column in zip(LINE_COLUMNS, LINE, strict=True)
    ]
)
"""A line as it is written: the same columns, instants as milliseconds under their own names."""
