"""Events and rows that are written by hand: only what a test is about is named."""

from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline.source.schema import SPARK_SCHEMA

Row = dict[str, object]

ENQUEUED: Row = {"event": "enqueued", "kind": "mail", "tag": "vip", "priority": 5}


def at(second: float) -> datetime:
    return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=second)


def frame_of(spark: SparkSession, *events: Row) -> DataFrame:
    """These events: the n-th has seq n and happened at second n, to job 'a', unless it says otherwise."""
    usual: Row = {"tenant": "acme", "queue": "mail", "shard": 0, "epoch": 1, "id": "a"}
    rows = [
        tuple({**usual, "seq": number, "happened_at": at(number), **event}.get(name) for name in SPARK_SCHEMA.names)
        for number, event in enumerate(events, 1)
    ]
    return spark.createDataFrame(rows, SPARK_SCHEMA)


def only(rows: list[Row], *names: str) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def columns_of(frame: DataFrame) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema)
