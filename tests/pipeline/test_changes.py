"""Promises of the table of changes: what moved since yesterday is named once, and what did not is left out."""

from typing import Any

from pyspark.sql import SparkSession

from headrace.pipeline.tables.changes import changes
from tests.pipeline.by_hand import at

Row = dict[str, Any]
HOUR = 3_600
UNTIL = 3 * 24 * HOUR
STATS = (
    "window_start timestamp, tenant string, queue string, kind string, retried bigint, stalled bigint, dead bigint,"
    " expired bigint, deliveries bigint, wait_times array<struct<ms: bigint, deliveries: bigint>>,"
    " run_times array<struct<ms: bigint, deliveries: bigint>>, backlog bigint"
)
ERRORS = (
    "tenant string, fingerprint string, error_class string, template string, queue string, failures bigint,"
    " first_seen timestamp"
)


def window(hours_ago: float, **measures: Any) -> Row:
    """A window that began so long before the end of the later day; all its deliveries took as long as their p95."""
    quiet = {"kind": "a", "retried": 0, "stalled": 0, "dead": 0, "expired": 0, "deliveries": 100}
    times = {"wait_p95": 200, "run_p95": 400, "backlog": 40}
    start = at(UNTIL - hours_ago * HOUR)
    row = {"window_start": start, "tenant": "acme", "queue": "mail", **quiet, **times, **measures}
    for what in ("wait", "run"):
        row[f"{what}_times"] = [(row.pop(f"{what}_p95"), row["deliveries"])] if row["deliveries"] else []
    return row


def error(hours_ago: float, **more: Any) -> Row:
    first = at(UNTIL - hours_ago * HOUR)
    known = {"tenant": "acme", "fingerprint": "f1", "error_class": "Timeout", "template": "no answer in <number> s"}
    return {**known, "queue": "mail", "failures": 3, "first_seen": first, **more}


def found(spark: SparkSession, windows: list[Row], errors: list[Row] | None = None) -> list[Row]:
    stats = spark.createDataFrame(windows, STATS)
    until_ms = round(at(UNTIL).timestamp() * 1_000)
    rows: list[Row] = changes(stats, spark.createDataFrame(errors or [], ERRORS), until_ms).toArrow().to_pylist()
    return rows


def short(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in ("queue", "change", "direction", "before", "now", "factor")) for row in rows]


def test_days_that_are_alike_have_no_changes(spark: SparkSession) -> None:
    assert found(spark, [window(30), window(26, run_p95=500), window(3), window(1, run_p95=500)]) == []


def test_a_row_says_what_moved_where_and_by_how_much(spark: SparkSession) -> None:
    old = [error(40, fingerprint="old"), error(3, fingerprint="old")]
    fresh = [error(2), error(1, queue="crm", failures=2)]

    rows = found(spark, [window(30), window(3, backlog=120)], [*old, *fresh])

    common = {"until": at(UNTIL), "tenant": "acme", "direction": "up"}
    assert rows == [
        {
            **common,
            "queue": "crm",
            "change": "new_error",
            "before": 0.0,
            "now": 5.0,
            "factor": None,
            "fingerprint": "f1",
            "message": "Timeout: no answer in <number> s",
        },
        {
            **common,
            "queue": "mail",
            "change": "backlog",
            "before": 40.0,
            "now": 120.0,
            "factor": 3.0,
            "fingerprint": None,
            "message": None,
        },
    ]


def test_times_are_the_95th_percentile_of_all_deliveries_of_a_day(spark: SparkSession) -> None:
    yesterday = [window(30, run_p95=100, deliveries=96), window(29, run_p95=9_000, deliveries=4)]
    today = [window(3, run_p95=9_000, deliveries=6, wait_p95=50), window(2, run_p95=100, deliveries=94, wait_p95=50)]

    assert short(found(spark, [*yesterday, *today])) == [
        ("mail", "run_p95", "up", 100.0, 9_000.0, 90.0),
        ("mail", "wait_p95", "down", 200.0, 50.0, 0.25),
    ]


def test_the_failure_rate_counts_deliveries_that_failed_and_no_job_that_expired_without_one(
    spark: SparkSession,
) -> None:
    yesterday = window(30, retried=1, dead=5, expired=5)
    today = window(3, retried=1, stalled=1, dead=3, expired=1)

    assert short(found(spark, [yesterday, today])) == [("mail", "failure_rate", "up", 0.01, 0.04, 4.0)]


def test_small_numbers_and_unknown_ones_say_nothing(spark: SparkSession) -> None:
    cases: list[tuple[Row, Row]] = [
        ({"backlog": 1}, {"backlog": 9}),
        ({"backlog": 100}, {"backlog": 199}),
        ({"run_p95": 10}, {"run_p95": 99}),
        ({"deliveries": 19, "run_p95": 100}, {"run_p95": 9_000}),
        ({"run_p95": 100}, {"deliveries": 19, "run_p95": 9_000}),
        ({"deliveries": 0, "run_p95": None, "wait_p95": None}, {}),
        ({"retried": 0}, {"deliveries": 1_000, "retried": 9}),
        ({"backlog": None}, {"backlog": 1_000}),
    ]
    windows = [
        window(hours, **({"queue": f"case-{number}"} | case))
        for number, pair in enumerate(cases)
        for hours, case in zip((30, 3), pair, strict=True)
    ]

    assert found(spark, windows) == []


def test_a_backlog_is_that_of_the_last_window_of_each_kind_however_old(spark: SparkSession) -> None:
    old = window(60, kind="b", backlog=500, deliveries=0)
    rows = short(found(spark, [old, window(30, backlog=20), window(3, backlog=20), window(2, kind="b", backlog=0)]))

    assert rows == [("mail", "backlog", "down", 520.0, 20.0, 20 / 520)]


def test_what_happened_after_the_end_or_before_both_days_does_not_count(spark: SparkSession) -> None:
    quiet, loud = window(30), {"run_p95": 90_000, "deliveries": 10_000, "retried": 9_000, "backlog": 40}

    assert found(spark, [window(49, **loud), quiet, window(3), window(0, **loud)], [error(0), error(24.1)]) == []


def test_from_none_to_some_has_no_factor_and_queues_are_ordered_by_how_much_moved(spark: SparkSession) -> None:
    rows = found(
        spark,
        [
            *(window(30, queue="a", backlog=0), window(3, queue="a", backlog=50)),
            *(window(30, queue="b", backlog=20), window(3, queue="b", backlog=60)),
        ],
    )

    assert short(rows) == [
        ("a", "backlog", "up", 0.0, 50.0, None),
        ("b", "backlog", "up", 20.0, 60.0, 3.0),
    ]
