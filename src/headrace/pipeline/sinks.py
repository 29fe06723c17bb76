"""Writes the rows of frames to a store as jobs, replays or items of feeds, and counts the outcomes."""

import secrets

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headrace.model.names import DEFAULT_TENANT
from headrace.pipeline.source.sink.result import Written
from headrace.pipeline.spark_errors import headrace_error

__all__ = ["Written", "enqueue", "publish", "replay"]

REPORT = "spark.writes"
"""The feed through which tasks report their counts, unless option `report` names another."""
Option = str | int | bool


def enqueue(frame: DataFrame, url: str, **options: Option) -> Written:
    """Enqueue a job for each row, idempotently, and count the outcomes of the rows.

    `options` are those of `format("headrace")` for jobs: `queue`, `kind`, `name`, `tenant`, `shards`, `keyTtl`,
    `refusals`, `report`. Raises `Refused` for refused rows, after all others were written, unless `refusals="count"`.
    """
    return _write(frame, url, "jobs", options)


def replay(frame: DataFrame, url: str, **options: Option) -> Written:
    """Replay the dead letter of each row (`queue`, `shard` and `dead_letter`, or `id`), and count the outcomes.

    `options` are those of `format("headrace")` for dead letters: `queue`, `tenant`, `keepCounts`, `delay`, `spread`,
    `refusals`, `report`.
    """
    return _write(frame, url, "dead", options)


def publish(frame: DataFrame, url: str, **options: Option) -> Written:
    """Publish an item for each row, edit changed items, and count the outcomes of the rows.

    `options` are those of `format("headrace")` for feeds: `feed`, `tenant`, `refusals`, `report`.
    """
    return _write(frame, url, "feed", options)


def _write(frame: DataFrame, url: str, what: str, options: dict[str, Option]) -> Written:
    settings = {"report": REPORT, "run": f"run-{secrets.token_hex(16)}"} | {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }
    writer = frame.write.format("headrace").mode("append").options(**settings, url=url, what=what)
    try:
        writer.save()
    except PySparkException as error:
        failure = headrace_error(error)
        if failure is None:
            raise
        # Spark's message is a page of traceback around the sentence.
        raise failure from None
    written = _report(frame, url, settings)
    assert written is not None, "the commit of a write publishes its counts before it ends"
    return written


def _report(frame: DataFrame, url: str, settings: dict[str, str]) -> Written | None:
    """The counts, read by Spark: the driver may not reach the store, or may be in an event loop."""
    tenant = settings.get("tenant", DEFAULT_TENANT)
    options = {"url": url, "what": "feed", "tenant": tenant, "feed": settings["report"], "columns": "id,item"}
    items = frame.sparkSession.read.format("headrace").options(**options).load()
    rows = items.where(items.id == settings["run"]).collect()
    return msgspec.json.decode(rows[0].item, type=Written) if rows else None
