"""Promises of the table of attempts, each told by events and a row that were written by hand."""

from pyspark.sql import SparkSession

from headrace.pipeline.tables.attempts import attempts
from tests.pipeline.by_hand import ENQUEUED, Row, at, columns_of, frame_of, only

COLUMNS = (
    "tenant string, queue string, shard int, id string, generation int, attempt int, fence bigint, worker string, "
    "kind string, claimed_at timestamp, ended_at timestamp, outcome string, wait_ms bigint, run_ms bigint, "
    "reason string, error_class string, error_message string"
)


def fold(spark: SparkSession, *events: Row) -> list[Row]:
    table = attempts(frame_of(spark, *events)).orderBy("tenant", "queue", "id", "generation", "fence")
    return list(table.toArrow().to_pylist())


def test_the_table_has_the_columns_that_are_written_down(spark: SparkSession) -> None:
    table = attempts(frame_of(spark))

    assert columns_of(table) == COLUMNS


def test_each_delivery_of_a_job_is_one_row_whichever_way_it_ended(spark: SparkSession) -> None:
    error: Row = {"error_class": "ValueError", "error_message": "no"}
    rows = fold(
        spark,
        ENQUEUED,
        {"event": "claimed", "fence": 3, "worker": "w"},
        {"event": "retried", "kind": "mail", "fence": 3, "worker": "w", "wait_ms": 10, "run_ms": 100, **error},
        {"event": "updated", "kind": "post"},
        {"event": "claimed", "fence": 5, "worker": "v"},
        {"event": "stalled", "kind": "post", "fence": 5, "worker": "v", "wait_ms": 20, "run_ms": 200},
        {"event": "claimed", "fence": 8, "worker": "w"},
        {"event": "released", "kind": "post", "fence": 8, "worker": "w", "wait_ms": 30, "run_ms": 300},
        {"event": "claimed", "fence": 9, "worker": "w"},
        {"event": "asked", "fence": 9, "worker": "w"},
        {"event": "dead", "kind": "post", "fence": 9, "worker": "w", "wait_ms": 40, "run_ms": 400, **error}
        | {"reason": "attempts", "dead_letter": 1},
        {"event": "replayed", "kind": "post", "dead_letter": 1},
        {"event": "claimed", "fence": 10, "worker": "w"},
        {"event": "done", "kind": "post", "fence": 10, "worker": "w", "wait_ms": 50, "run_ms": 500},
        ENQUEUED,
        {"event": "claimed", "fence": 11, "worker": "w"},
    )

    assert rows[0] == {
        "tenant": "acme",
        "queue": "mail",
        "shard": 0,
        "id": "a",
        "generation": 1,
        "attempt": 1,
        "fence": 3,
        "worker": "w",
        "kind": "mail",
        "claimed_at": at(2),
        "ended_at": at(3),
        "outcome": "retried",
        "wait_ms": 10,
        "run_ms": 100,
        "reason": None,
        "error_class": "ValueError",
        "error_message": "no",
    }
    names = ("generation", "attempt", "fence", "kind", "claimed_at", "ended_at", "outcome", "run_ms", "reason")
    assert only(rows[1:], *names) == [
        (1, 2, 5, "post", at(5), at(6), "stalled", 200, None),
        (1, 3, 8, "post", at(7), at(8), "released", 300, None),
        (1, 4, 9, "post", at(9), at(11), "dead", 400, "attempts"),
        (2, 1, 10, "post", at(13), at(14), "done", 500, None),
        (3, 1, 11, "mail", at(16), None, None, None, None),
    ]


def test_what_ends_a_job_that_waits_is_no_attempt(spark: SparkSession) -> None:
    rows = fold(
        spark,
        {**ENQUEUED, "id": "expired"},
        {
            "event": "dead",
            "id": "expired",
            "kind": "mail",
            "reason": "expired",
            "dead_letter": 1,
            "error_class": "Expired",
        },
        {**ENQUEUED, "id": "cancelled"},
        {"event": "claimed", "id": "cancelled", "fence": 1},
        {"event": "released", "id": "cancelled", "fence": 1},
        {"event": "cancelled", "id": "cancelled", "kind": "mail"},
        {**ENQUEUED, "id": "removed"},
        {"event": "claimed", "id": "removed", "fence": 2},
        {"event": "retried", "id": "removed", "fence": 2},
        {"event": "removed", "id": "removed", "kind": "mail", "reason": "waiting"},
    )

    assert only(rows, "id", "fence", "outcome") == [("cancelled", 1, "released"), ("removed", 2, "retried")]


def test_a_blocked_job_that_is_cancelled_leaves_the_delivery_it_waits_behind(spark: SparkSession) -> None:
    rows = fold(
        spark,
        ENQUEUED,
        {"event": "claimed", "fence": 1},
        {"event": "blocked", "kind": "blocked_job"},
        {"event": "cancelled", "kind": "blocked_job", "reason": "blocked"},
        {"event": "blocked", "kind": "blocked_job"},
        {"event": "cancelled", "kind": "mail", "fence": 1, "run_ms": 7},
        {"event": "unblocked", "kind": "blocked_job"},
        {"event": "claimed", "fence": 2},
    )

    assert only(rows, "generation", "fence", "kind", "outcome", "ended_at") == [
        (1, 1, "mail", "cancelled", at(6)),
        (2, 2, "blocked_job", None, None),
    ]


def test_a_delivery_ends_with_its_job_when_that_is_removed_or_lost(spark: SparkSession) -> None:
    rows = fold(
        spark,
        {**ENQUEUED, "id": "lost later"},
        {"event": "claimed", "id": "lost later", "fence": 1},
        {"event": "retried", "id": "lost later", "fence": 1},
        {"event": "removed", "id": "lost later", "reason": "lost"},
        {**ENQUEUED, "id": "lost"},
        {"event": "claimed", "id": "lost", "fence": 2},
        {"event": "removed", "id": "lost", "reason": "lost"},
        {**ENQUEUED, "id": "mended"},
        {"event": "claimed", "id": "mended", "fence": 3},
        {"event": "stalled", "id": "mended", "kind": "mail"},
        {**ENQUEUED, "id": "removed"},
        {"event": "claimed", "id": "removed", "fence": 4},
        {"event": "removed", "id": "removed", "kind": "mail", "reason": "active"},
    )

    assert only(rows, "id", "fence", "kind", "outcome", "reason") == [
        ("lost", 2, "mail", "removed", "lost"),
        ("lost later", 1, "mail", "retried", None),
        ("mended", 3, "mail", "stalled", None),
        ("removed", 4, "mail", "removed", "active"),
    ]


def test_a_generation_that_began_before_the_journal_has_a_row_with_the_rest(spark: SparkSession) -> None:
    rows = fold(
        spark,
        {"event": "retried", "kind": "mail", "fence": 7, "worker": "w", "wait_ms": 1, "run_ms": 2},
        {"event": "claimed", "fence": 9, "worker": "w"},
        {"event": "removed", "id": "b", "kind": "mail", "reason": "active"},
        {"event": "removed", "id": "c", "reason": "lost"},
    )

    assert only(rows, "id", "generation", "attempt", "fence", "kind", "claimed_at", "outcome") == [
        ("a", 0, None, 7, "mail", None, "retried"),
        ("a", 0, None, 9, "mail", at(2), None),
        ("b", 0, None, None, "mail", None, "removed"),
    ]
