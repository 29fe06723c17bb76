"""Promises of the table of jobs, each told by events and a row that were written by hand."""

from pyspark.sql import SparkSession

from headrace.pipeline.tables.jobs import jobs
from tests.pipeline.by_hand import ENQUEUED, Row, at, columns_of, frame_of, only

COLUMNS = (
    "tenant string, queue string, shard int, id string, generation int, born string, kind string, tag string, "
    "priority int, enqueued_at timestamp, first_claimed_at timestamp, ended_at timestamp, outcome string, "
    "reason string, deliveries int, attempts int, stalls int, wait_ms bigint, run_ms bigint, error_class string, "
    "error_message string"
)


def fold(spark: SparkSession, *events: Row) -> list[Row]:
    table = jobs(frame_of(spark, *events)).orderBy("tenant", "queue", "id", "generation")
    return list(table.toArrow().to_pylist())


def test_the_table_has_the_columns_that_are_written_down(spark: SparkSession) -> None:
    table = jobs(frame_of(spark))

    assert columns_of(table) == COLUMNS


def test_a_job_that_is_done_is_one_row(spark: SparkSession) -> None:
    rows = fold(
        spark,
        ENQUEUED,
        {"event": "claimed", "fence": 1, "worker": "w"},
        {
            "event": "done",
            "kind": "mail",
            "tag": "vip",
            "priority": 5,
            "attempts": 0,
            "stalls": 0,
            "fence": 1,
            "enqueued_at": at(1),
            "wait_ms": 1_000,
            "run_ms": 900,
        },
    )

    assert rows == [
        {
            "tenant": "acme",
            "queue": "mail",
            "shard": 0,
            "id": "a",
            "generation": 1,
            "born": "enqueued",
            "kind": "mail",
            "tag": "vip",
            "priority": 5,
            "enqueued_at": at(1),
            "first_claimed_at": at(2),
            "ended_at": at(3),
            "outcome": "done",
            "reason": None,
            "deliveries": 1,
            "attempts": 0,
            "stalls": 0,
            "wait_ms": 1_000,
            "run_ms": 900,
            "error_class": None,
            "error_message": None,
        }
    ]


def test_a_job_that_only_waits_is_open_with_counters_at_zero(spark: SparkSession) -> None:
    rows = fold(spark, ENQUEUED)

    names = (
        "outcome",
        "ended_at",
        "first_claimed_at",
        "enqueued_at",
        "deliveries",
        "attempts",
        "stalls",
        "wait_ms",
        "run_ms",
    )
    assert only(rows, *names) == [(None, None, None, at(1), 0, 0, 0, None, 0)]


def test_deliveries_add_up_and_the_last_word_counts(spark: SparkSession) -> None:
    rows = fold(
        spark,
        ENQUEUED,
        {"event": "claimed", "fence": 1},
        {"event": "retried", "kind": "mail", "attempts": 1, "stalls": 0, "fence": 1, "wait_ms": 10, "run_ms": 100}
        | {"error_class": "First", "error_message": "one"},
        {"event": "claimed", "fence": 2},
        {"event": "stalled", "kind": "mail", "attempts": 1, "stalls": 1, "fence": 2, "wait_ms": 20, "run_ms": 200},
        {"event": "claimed", "fence": 3},
        {"event": "released", "kind": "mail", "attempts": 1, "stalls": 1, "fence": 3, "wait_ms": 30, "run_ms": 300},
        {"event": "claimed", "fence": 4},
        {"event": "dead", "kind": "mail", "attempts": 2, "stalls": 1, "fence": 4, "wait_ms": 40, "run_ms": 400}
        | {"reason": "attempts", "dead_letter": 1, "error_class": "Last", "error_message": ""},
    )

    names = (
        "outcome",
        "reason",
        "deliveries",
        "attempts",
        "stalls",
        "wait_ms",
        "run_ms",
        "error_class",
        "error_message",
    )
    assert only(rows, *names) == [("dead", "attempts", 4, 2, 1, 40, 1_000, "Last", "")]
    assert only(rows, "first_claimed_at", "ended_at") == [(at(2), at(9))]


def test_a_job_that_failed_and_was_done_then_keeps_its_last_error(spark: SparkSession) -> None:
    rows = fold(
        spark,
        ENQUEUED,
        {"event": "claimed", "fence": 1},
        {"event": "retried", "attempts": 1, "fence": 1, "run_ms": 1, "error_class": "E", "error_message": "m"},
        {"event": "claimed", "fence": 2},
        {"event": "done", "attempts": 1, "fence": 2, "run_ms": 1},
    )

    assert only(rows, "outcome", "attempts", "error_class", "error_message") == [("done", 1, "E", "m")]


def test_an_id_that_is_used_again_generations_again(spark: SparkSession) -> None:
    rows = fold(
        spark,
        ENQUEUED,
        {"event": "claimed", "fence": 1},
        {"event": "dead", "fence": 1, "attempts": 1, "reason": "failed", "dead_letter": 1, "error_class": "E"},
        {"event": "enqueued", "kind": "other"},
        {"event": "cancelled", "kind": "other", "attempts": 0, "enqueued_at": at(4)},
    )

    assert only(rows, "generation", "born", "kind", "outcome", "reason", "attempts", "error_class") == [
        (1, "enqueued", "mail", "dead", "failed", 1, "E"),
        (2, "enqueued", "other", "cancelled", None, 0, None),
    ]


def test_a_blocked_job_generations_from_when_it_is_freed(spark: SparkSession) -> None:
    rows = fold(
        spark,
        ENQUEUED,
        {"event": "claimed", "fence": 1},
        {"event": "blocked", "kind": "blocked_job", "priority": 9},
        {"event": "done", "kind": "mail", "fence": 1, "enqueued_at": at(1), "run_ms": 5},
        {"event": "unblocked", "kind": "blocked_job", "priority": 9},
        {"event": "claimed", "fence": 2},
        {"event": "done", "kind": "blocked_job", "fence": 2, "enqueued_at": at(3), "run_ms": 6},
    )

    assert only(rows, "generation", "born", "kind", "enqueued_at", "ended_at", "deliveries", "run_ms") == [
        (1, "enqueued", "mail", at(1), at(4), 1, 5),
        (2, "unblocked", "blocked_job", at(3), at(7), 1, 6),
    ]


def test_a_blocked_job_that_is_blocked_changes_nothing_of_the_one_that_runs(spark: SparkSession) -> None:
    rows = fold(
        spark,
        ENQUEUED,
        {"event": "claimed", "fence": 1},
        {"event": "blocked", "kind": "blocked_job", "priority": 9},
        {"event": "blocked", "id": "began before the journal", "kind": "blocked_job"},
    )

    assert only(rows, "id", "generation", "kind", "priority", "outcome") == [("a", 1, "mail", 5, None)]


def test_a_cancelled_blocked_job_does_not_end_the_active_one(spark: SparkSession) -> None:
    rows = fold(
        spark,
        ENQUEUED,
        {"event": "claimed", "fence": 1},
        {"event": "blocked", "kind": "blocked_job"},
        {"event": "cancelled", "reason": "blocked", "kind": "blocked_job", "attempts": 0, "enqueued_at": at(3)},
        {"event": "asked", "fence": 1},
        {"event": "blocked", "kind": "blocked_job"},
        {"event": "cancelled", "reason": "blocked", "kind": "blocked_job", "attempts": 0, "enqueued_at": at(6)},
        {"event": "done", "kind": "mail", "attempts": 2, "fence": 1, "enqueued_at": at(1)},
    )

    assert only(rows, "kind", "enqueued_at", "ended_at", "outcome", "attempts") == [("mail", at(1), at(8), "done", 2)]


def test_a_cancel_ends_a_job_that_waits_and_one_whose_delivery_came_back(spark: SparkSession) -> None:
    rows = fold(
        spark,
        {**ENQUEUED, "id": "waits"},
        {"event": "cancelled", "id": "waits", "kind": "mail"},
        {**ENQUEUED, "id": "came back"},
        {"event": "claimed", "id": "came back", "fence": 1},
        {"event": "retried", "id": "came back", "fence": 1, "attempts": 1},
        {"event": "cancelled", "id": "came back", "kind": "mail", "attempts": 1},
        {**ENQUEUED, "id": "asked"},
        {"event": "claimed", "id": "asked", "fence": 2},
        {"event": "asked", "id": "asked", "fence": 2},
        {"event": "cancelled", "id": "asked", "kind": "mail", "fence": 2},
    )

    assert only(rows, "id", "outcome", "ended_at") == [
        ("asked", "cancelled", at(10)),
        ("came back", "cancelled", at(6)),
        ("waits", "cancelled", at(2)),
    ]


def test_a_blocked_job_that_was_merged_changes_the_job_it_merged_into(spark: SparkSession) -> None:
    rows = fold(
        spark,
        ENQUEUED,
        {"event": "claimed", "fence": 1},
        {"event": "blocked", "kind": "new", "priority": 9},
        {"event": "retried", "kind": "mail", "tag": "vip", "priority": 5, "attempts": 1, "stalls": 0, "fence": 1},
        {"event": "merged", "kind": "new", "tag": None, "priority": 9, "attempts": 0, "stalls": 0},
    )

    assert only(rows, "generation", "kind", "tag", "priority", "attempts", "outcome") == [(1, "new", None, 9, 0, None)]


def test_a_replayed_job_generations_again_with_its_first_time_of_enqueueing(spark: SparkSession) -> None:
    rows = fold(
        spark,
        ENQUEUED,
        {"event": "claimed", "fence": 1},
        {
            "event": "dead",
            "kind": "mail",
            "attempts": 3,
            "fence": 1,
            "enqueued_at": at(1),
            "reason": "attempts",
            "dead_letter": 1,
        },
        {"event": "replayed", "kind": "mail", "attempts": 0, "stalls": 0, "dead_letter": 1},
        {"event": "claimed", "fence": 2},
        {"event": "done", "kind": "mail", "attempts": 0, "stalls": 0, "fence": 2, "enqueued_at": at(1)},
    )

    assert only(rows, "generation", "born", "enqueued_at", "first_claimed_at", "outcome", "attempts") == [
        (1, "enqueued", at(1), at(2), "dead", 3),
        (2, "replayed", at(1), at(5), "done", 0),
    ]


def test_purging_a_job_ends_it_and_purging_its_dead_letter_does_not(spark: SparkSession) -> None:
    rows = fold(
        spark,
        {**ENQUEUED, "id": "waits"},
        {"event": "purged", "id": "waits", "kind": "mail"},
        {**ENQUEUED, "id": "dead_letter"},
        {"event": "dead", "id": "dead_letter", "kind": "mail", "reason": "expired", "dead_letter": 1},
        {**ENQUEUED, "id": "dead_letter"},
        {"event": "purged", "id": "dead_letter", "kind": "mail", "dead_letter": 1},
    )

    assert only(rows, "id", "generation", "outcome") == [
        ("dead_letter", 1, "dead"),
        ("dead_letter", 2, None),
        ("waits", 1, "purged"),
    ]


def test_removing_an_id_ends_what_was_open_and_leaves_what_had_ended(spark: SparkSession) -> None:
    rows = fold(
        spark,
        {**ENQUEUED, "id": "open"},
        {"event": "removed", "id": "open", "kind": "mail", "reason": "waiting"},
        {**ENQUEUED, "id": "over"},
        {"event": "claimed", "id": "over", "fence": 1},
        {"event": "done", "id": "over", "kind": "mail", "fence": 1},
        {"event": "removed", "id": "over"},
        {**ENQUEUED, "id": "lost"},
        {"event": "removed", "id": "lost", "reason": "lost"},
        {"event": "removed", "id": "ended before the journal"},
    )

    assert only(rows, "id", "kind", "outcome", "reason", "ended_at") == [
        ("lost", "mail", "removed", "lost", at(8)),
        ("open", "mail", "removed", "waiting", at(2)),
        ("over", "mail", "done", None, at(5)),
    ]


def test_a_generation_that_began_before_the_journal_is_number_zero(spark: SparkSession) -> None:
    rows = fold(
        spark,
        {"event": "done", "kind": "mail", "attempts": 4, "stalls": 1, "fence": 9, "enqueued_at": at(-60), "run_ms": 7},
        ENQUEUED,
        {"event": "claimed", "id": "b", "fence": 10},
    )

    names = ("id", "generation", "born", "enqueued_at", "outcome", "deliveries", "attempts", "stalls")
    assert only(rows, *names) == [
        ("a", 0, None, at(-60), "done", 0, 4, 1),
        ("a", 1, "enqueued", at(2), None, 0, 0, 0),
        ("b", 0, None, None, None, 1, None, None),
    ]


def test_an_update_changes_what_the_job_is(spark: SparkSession) -> None:
    rows = fold(
        spark, ENQUEUED, {"event": "updated", "kind": "post", "tag": None, "priority": 1, "attempts": 0, "stalls": 0}
    )

    assert only(rows, "generation", "kind", "tag", "priority", "enqueued_at") == [(1, "post", None, 1, at(1))]


def test_the_order_is_epoch_then_seq_whatever_the_order_of_rows(spark: SparkSession) -> None:
    rows = fold(
        spark,
        {"event": "done", "kind": "mail", "epoch": 2, "seq": 2, "fence": 1},
        {"event": "claimed", "epoch": 2, "seq": 1, "fence": 1},
        {**ENQUEUED, "epoch": 1, "seq": 7},
    )

    assert only(rows, "generation", "born", "outcome", "deliveries") == [(1, "enqueued", "done", 1)]


def test_the_same_id_in_another_queue_or_tenant_is_another_job(spark: SparkSession) -> None:
    rows = fold(
        spark,
        ENQUEUED,
        {**ENQUEUED, "tenant": "birch"},
        {**ENQUEUED, "queue": "post"},
        {"event": "cancelled", "kind": "mail", "tenant": "birch"},
        {"event": "configured", "id": None, "version": 1},
    )

    assert only(rows, "tenant", "queue", "generation", "outcome") == [
        ("acme", "mail", 1, None),
        ("acme", "post", 1, None),
        ("birch", "mail", 1, "cancelled"),
    ]


def test_a_job_that_was_removed_keeps_its_tag_and_priority(spark: SparkSession) -> None:
    updated = {**ENQUEUED, "event": "updated", "kind": "news", "tag": None, "priority": 3}

    rows = fold(
        spark,
        ENQUEUED,
        {"event": "removed", "kind": "mail", "reason": "waiting"},
        {**ENQUEUED, "id": "b"},
        {**updated, "id": "b"},
        {"event": "removed", "kind": "news", "reason": "waiting", "id": "b"},
        {"event": "removed", "kind": "old", "reason": "waiting", "id": "c"},
    )

    assert only(rows, "id", "outcome", "kind", "tag", "priority") == [
        ("a", "removed", "mail", "vip", 5),
        ("b", "removed", "news", None, 3),
        ("c", "removed", "old", None, None),
    ]
