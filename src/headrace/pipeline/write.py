"""Writes frames into a store and tells what became of their rows: jobs, replays of dead letters, items of feeds."""

import secrets
from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from headrace.model.errors import HeadraceError
from headrace.model.feed import FeedName
from headrace.model.names import DEFAULT_TENANT
from headrace.pipeline.source.opening import opened
from headrace.pipeline.source.write.counts import Written
from headrace.pipeline.source.write.report import find_report
from headrace.pipeline.source.write.sink import rows_refused

__all__ = ["Written", "enqueue", "publish", "replay"]

REPORT = "spark.writes"
"""The feed that the counts go through, unless option `report` names another: the tasks run elsewhere."""
Option = str | int | bool


def enqueue(frame: DataFrame, url: str, **options: Option) -> Written:
    """Enqueue a job for each row, once however often it is run, and say what became of the rows.

    `options` are those of `format("headrace")` for jobs: `queue`, `kind`, `name`, `tenant`, `shards`, `keyTtl`,
    `refusals`, `report`. Raises `Refused` when rows were refused, after all others are in, unless `refusals="count"`.
    """
    return _write(frame, url, "jobs", options)


def replay(frame: DataFrame, url: str, **options: Option) -> Written:
    """Replay the dead letter of each row (`queue`, `shard` and `letter`, or `id`) and say what became of the rows.

    `options` are those of `format("headrace")` for dead letters: `queue`, `tenant`, `keepCounts`, `delay`, `spread`,
    `refusals`, `report`.
    """
    return _write(frame, url, "dead", options)


def publish(frame: DataFrame, url: str, **options: Option) -> Written:
    """Publish an item for each row, edit those that differ, and say what became of the rows.

    `options` are those of `format("headrace")` for feeds: `feed`, `tenant`, `refusals`, `report`.
    """
    return _write(frame, url, "feed", options)


def _write(frame: DataFrame, url: str, what: str, options: dict[str, Option]) -> Written:
    given = {"report": REPORT, "run": f"run-{secrets.token_hex(16)}"} | {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }
    writer = frame.write.format("headrace").mode("append").options(**given, url=url, what=what)
    feed = FeedName(given["report"], given.get("tenant", DEFAULT_TENANT))
    written: Written | None = None
    try:
        writer.save()
    except PySparkException as error:
        with suppress(HeadraceError):  # what Spark says is worth more than that there is no report either
            written = _report(url, feed, given["run"])
        if written is None or not written.refused:
            raise
        raise rows_refused(written) from error
    written = _report(url, feed, given["run"])
    assert written is not None, "the commit of a write publishes its counts before it ends"
    return written


def _report(url: str, feed: FeedName, run: str) -> Written | None:
    with opened(url) as (runner, store):
        return runner.run(find_report(store, feed, run))
