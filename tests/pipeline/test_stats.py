"""Promises of the table of statistics, on rows written by hand."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline.source.schema import JOURNAL
from headrace.pipeline.tables.layouts import STATS_COLUMNS
from headrace.pipeline.tables.stats import stats
from tests.pipeline.store_scenarios import instant

NOON = 1_700_049_600_000
Row = dict[str, Any]


def event(name: str, at_s: float, kind: str | None = "k", **fields: Any) -> Row:
    blank: Row = dict.fromkeys(JOURNAL.names)
    place = {"tenant": "acme", "queue": "mail", "shard": 0, "epoch": 1, "seq": 1}
    return (
        blank
        | place
        | {"event": name, "happened_at": instant(NOON + int(at_s * 1_000)), "kind": kind, "id": "a"}
        | fields
    )


def end(name: str, at_s: float, wait_ms: int, run_ms: int, **fields: Any) -> Row:
    return event(name, at_s, fence=1, wait_ms=wait_ms, run_ms=run_ms, **fields)


def frame(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return spark.createDataFrame([tuple(row[name] for name in JOURNAL.names) for row in rows], JOURNAL.spark)


@pytest.fixture(scope="module")
def counted(spark: SparkSession) -> dict[tuple[str, str | None], Row]:
    """By the minute and the kind."""
    events = [
        *[event("enqueued", 0.0) for _ in range(25)],
        *[end("done", 1, wait_ms=10 * n, run_ms=n) for n in range(1, 20)],
        end("retried", 2, 5_000, 0, reason=None),
        end("released", 59.999, 1, 1),
        # What opens and closes nothing, or has no kind, is not counted.
        *[event(name, 3) for name in ("updated", "blocked", "merged", "configured")],
        *[event(name, 3, None, fence=2) for name in ("claimed", "asked")],
        event("cancelled", 3, reason="blocked"),
        event("purged", 3, dead_letter=4),
        event("removed", 3, None),
        # The next minute.
        event("unblocked", 60),
        event("replayed", 60, dead_letter=1),
        event("stalled", 61),
        end("stalled", 61, 7, 8),
        end("dead", 61, 7, 9, reason="stalls", dead_letter=1),
        event("dead", 61, reason="expired", dead_letter=2),
        end("cancelled", 61, 7, 10),
        event("cancelled", 61),
        event("purged", 61),
        event("removed", 61, reason="active"),
        event("removed", 61, None, reason="lost"),
        event("enqueued", 62, "other", queue="news", tenant="birch"),
    ]
    table = stats(frame(spark, events), 60_000)
    assert table.columns == [name for name in STATS_COLUMNS.names if name != "backlog"]
    rows = table.toArrow().to_pylist()
    return {(f"{row['window_start']:%H:%M}", row["kind"]): row for row in rows}


def test_each_window_counts_what_was_opened_closed_and_delivered(counted: dict[tuple[str, str | None], Row]) -> None:
    first, second = counted["12:00", "k"], counted["12:01", "k"]

    assert set(counted) == {("12:00", "k"), ("12:01", "k"), ("12:01", None), ("12:01", "other")}
    assert (first["window_start"], first["window_end"]) == (instant(NOON), instant(NOON + 60_000))
    assert {
        name: first[name] for name in ("events", "enqueued", "opened", "done", "retried", "released", "closed")
    } == {"events": 46, "enqueued": 25, "opened": 25, "done": 19, "retried": 1, "released": 1, "closed": 19}
    assert (first["deliveries"], first["cancelled"], first["purged"], first["removed"]) == (21, 0, 0, 0)
    assert {name: second[name] for name in ("unblocked", "replayed", "opened", "stalled", "dead", "expired")} == {
        "unblocked": 1,
        "replayed": 1,
        "opened": 2,
        "stalled": 2,
        "dead": 2,
        "expired": 1,
    }
    assert {name: second[name] for name in ("cancelled", "purged", "removed", "closed", "deliveries", "events")} == {
        "cancelled": 2,
        "purged": 1,
        "removed": 1,
        "closed": 6,
        "deliveries": 4,
        "events": 10,
    }
    assert (counted["12:01", None]["removed"], counted["12:01", None]["closed"]) == (1, 1)
    assert (counted["12:01", "other"]["tenant"], counted["12:01", "other"]["opened"]) == ("birch", 1)


def test_percentiles_are_by_nearest_rank_and_rates_by_deliveries(counted: dict[tuple[str, str | None], Row]) -> None:
    first, second, other = counted["12:00", "k"], counted["12:01", "k"], counted["12:01", "other"]

    # Waits are 1, 10, 20, …, 190, 5,000 and runs 0, 1, 1, 2, …, 19: the 11th, the 20th and the 21st of 21.
    assert [first[f"wait_{name}"] for name in ("p50", "p95", "p99", "max")] == [100, 190, 5_000, 5_000]
    assert [first[f"run_{name}"] for name in ("p50", "p95", "p99", "max")] == [9, 18, 19, 19]
    assert (first["run_ms_sum"], first["throughput"]) == (191, 19 / 60)
    assert (first["retry_rate"], first["stall_rate"], first["death_rate"]) == (1 / 21, 0.0, 0.0)
    # A delivery that was lost with its record has no times, and an expired job no delivery.
    assert [second[f"run_{name}"] for name in ("p50", "p95", "max")] == [9, 10, 10]
    assert (second["stall_rate"], second["death_rate"]) == (0.5, 0.25)
    assert [other[name] for name in ("wait_p50", "run_max", "retry_rate", "stall_rate", "death_rate")] == [None] * 5
    assert (other["run_ms_sum"], other["throughput"]) == (0, 0.0)
