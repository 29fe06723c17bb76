"""Promises of the short tables and of the standings, each from rows that were written by hand."""

from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline import report
from headrace.pipeline.tables.standing import standing


def told(frame: DataFrame) -> list[tuple[object, ...]]:
    return [tuple(row) for row in frame.collect()]


def test_events_are_counted_by_queue(spark: SparkSession) -> None:
    rows = [("b", "q", "done"), ("a", "q", "done"), ("a", "q", "claimed"), ("a", "q", "done")]

    table = report.events_by_queue(spark.createDataFrame(rows, "tenant string, queue string, event string"))

    assert told(table) == [("a", "q", "claimed", 1), ("a", "q", "done", 2), ("b", "q", "done", 1)]


def test_outcomes_are_counted_by_kind(spark: SparkSession) -> None:
    rows = [
        ("k", "done", 1),
        ("k", "dead", 3),
        ("k", None, 0),
        ("k", "cancelled", 0),
        ("k", "removed", 1),
        ("j", "done", 1),
    ]

    table = report.outcomes_by_kind(spark.createDataFrame(rows, "kind string, outcome string, deliveries int"))

    assert table.columns == ["kind", "jobs", "done", "dead", "cancelled", "open", "deliveries"]
    assert told(table) == [("j", 1, 1, 0, 0, 0, 1), ("k", 5, 1, 1, 1, 1, 5)]


def test_percentiles_are_those_of_deliveries_that_ended(spark: SparkSession) -> None:
    rows = [("k", 10 * number, number) for number in range(101)] + [("k", 5, None)]

    table = report.times_by_kind(spark.createDataFrame(rows, "kind string, wait_ms long, run_ms long"))

    assert table.columns == ["kind", "deliveries", "wait_p50", "wait_p95", "run_p50", "run_p95"]
    assert told(table) == [("k", 101, 500, 950, 50, 95)]


def test_jobs_that_ended_are_counted_by_failed_attempts(spark: SparkSession) -> None:
    rows = [(0, "done"), (0, "done"), (0, None), (2, "dead"), (2, "done"), (1, "cancelled")]

    table = report.jobs_by_attempts(spark.createDataFrame(rows, "attempts int, outcome string"))

    assert told(table) == [(0, 2, 0, 0), (1, 0, 0, 1), (2, 1, 1, 0)]


def test_deaths_are_grouped_with_an_example_and_the_most_frequent_first(spark: SparkSession) -> None:
    rows = [
        ("z", "dead", "failed", "k", "E", "later"),
        ("y", "dead", "failed", "k", "E", "sooner"),
        ("x", "dead", "stalls", "k", "S", "lost"),
        ("w", "done", None, "k", "E", "in the end it worked"),
    ]
    names = "id string, outcome string, reason string, kind string, error_class string, error_message string"

    table = report.deaths_by_reason(spark.createDataFrame(rows, names))

    assert table.columns == ["reason", "kind", "error_class", "deaths", "example"]
    assert told(table) == [("failed", "k", "E", 2, "sooner"), ("stalls", "k", "S", 1, "lost")]


def test_the_standing_counts_what_a_store_still_keeps(spark: SparkSession) -> None:
    rows = [
        ("once", 1, "enqueued", "done"),
        ("anew", 1, "enqueued", "done"),  # its ending went when the id was created anew
        ("anew", 2, "enqueued", None),
        ("twin", 1, "enqueued", "done"),  # its ending stays while the twin waits
        ("twin", 2, "unblocked", None),
        ("both", 1, "enqueued", "done"),  # one ending an id: the later one
        ("both", 2, "unblocked", "cancelled"),
        ("died", 1, "enqueued", "dead"),
        ("back", 1, "enqueued", "dead"),  # its letter went with the replay
        ("back", 2, "replayed", "done"),
        ("gone", 1, "enqueued", "removed"),
    ]
    names = "tenant string, queue string, id string, incarnation int, born string, outcome string"

    table = standing(spark.createDataFrame([("t", "q", *row) for row in rows], names))

    assert table.columns == ["tenant", "queue", "open", "done", "cancelled", "dead"]
    assert told(table) == [("t", "q", 2, 3, 1, 1)]
