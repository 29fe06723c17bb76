"""Promises of the fold and the comparison of an audit, with events written by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline.audit.compare import ROW, compare_dead_letters, compare_jobs, seen_jobs
from headrace.pipeline.audit.fold import EVENT, cut_at, fold, fold_dead_letters, uncut
from headrace.pipeline.audit.journal_flaws import number_flaws, order_flaws
from headrace.pipeline.audit.judge import JobHistory
from headrace.pipeline.source.schema import JOBS, JOURNAL

T0 = datetime(2026, 1, 1, tzinfo=UTC)
DUE = int(T0.timestamp() * 1000)
Row = dict[str, Any]


def event(seq: int, name: str, id: str | None = "a", **fields: Any) -> Row:
    return {"seq": seq, "happened_at": T0 + timedelta(seconds=seq), "event": name, "id": id, **fields}


def enqueued(seq: int, id: str = "a", **fields: Any) -> Row:
    return event(seq, "enqueued", id, **{"kind": "send", "run_at": T0, "payload_bytes": 2, **fields})


def ended(seq: int, name: str, id: str = "a", **fields: Any) -> Row:
    return event(
        seq, name, id, **{"kind": "send", "attempts": 0, "stalls": 0, "payload_bytes": 2, "fence": 1, **fields}
    )


def row(state: str, as_of_seq: int, id: str = "a", **fields: Any) -> Row:
    base = {"kind": "send", "attempts": 0, "stalls": 0, "run_at": T0, "payload_bytes": 2}
    return {"id": id, "state": state, "as_of_seq": as_of_seq, **base, **fields}


def journal(spark: SparkSession, *events: Row) -> DataFrame:
    rows = [[{"tenant": "acme", "queue": "mail", "shard": 0, **each}.get(name) for name in EVENT] for each in events]
    return spark.createDataFrame(rows, JOURNAL.pick(EVENT).spark)


def records(spark: SparkSession, *rows: Row) -> DataFrame:
    values = [[{"tenant": "acme", "queue": "mail", "shard": 0, **each}.get(name) for name in ROW] for each in rows]
    return spark.createDataFrame(values, JOBS.pick(ROW).spark)


def shards(spark: SparkSession, *, is_whole: bool = True) -> DataFrame:
    schema = "tenant string, queue string, shard int, shards int, is_whole boolean, stood_seq long"
    return spark.createDataFrame([("acme", "mail", 0, 1, is_whole, 8)], schema)


def test_events_are_folded_into_the_records_of_their_job(spark: SparkSession) -> None:
    events = journal(
        spark,
        enqueued(1),
        event(2, "claimed", fence=1),
        event(3, "blocked", kind="blocked_job", run_at=T0, payload_bytes=9),
        ended(4, "retried", attempts=1, run_at=T0),
        event(5, "merged", kind="blocked_job", attempts=0, stalls=0, run_at=T0, payload_bytes=9),
        event(6, "claimed", fence=2),
        ended(7, "done", kind="blocked_job", fence=2),
        enqueued(8, "b"),
        event(9, "claimed", "b", fence=3),
        ended(10, "dead", "b", fence=3, dead_letter=1, attempts=1),
        ended(11, "dead", "b", fence=4, dead_letter=2, attempts=2),
        event(12, "purged", "b", dead_letter=1),
    )

    folded = {each["id"]: each.asDict(recursive=True) for each in fold(uncut(events)).collect()}

    a, b = folded["a"], folded["b"]
    assert (a["live"]["state"], a["live"]["seq"], a["fence"], a["blocked_job"]["is_there"]) == ("over", 7, 2, False)
    assert a["record"] == {"kind": "blocked_job", "run_at_ms": DUE, "payload_bytes": 9, "attempts": 0, "stalls": 0}
    assert (a["finished_job"]["state"], a["finished_job"]["kind"], a["finished_job"]["seq"]) == (
        "done",
        "blocked_job",
        7,
    )
    assert [(each["dead_letter"], each["attempts"]) for each in b["deaths"]] == [(1, 1), (2, 2)]
    assert (b["gone"], b["finished_job"]["state"], b["last"]) == ([1], "none", {"seq": 12, "event": "purged"})


def test_a_row_is_compared_with_the_journal_up_to_the_seq_at_which_it_was_read(spark: SparkSession) -> None:
    events = journal(
        spark,
        *[enqueued(seq, id) for seq, id in enumerate(("early", "moved", "late", "new", "other"), 1)],
        event(6, "claimed", "moved", fence=1),
        event(7, "claimed", "early", fence=2),
        ended(8, "done", "early", fence=2),
        event(9, "claimed", "late", fence=3),
    )
    rows = records(
        spark,
        row("waiting", 5, "early"),
        row("done", 8, "early", run_at=None, payload_bytes=None),
        row("active", 7, "moved", fence=1),
        row("active", 8, "late", fence=3),
        row("waiting", 9, "other", kind="another"),
    )
    seen = seen_jobs(rows)

    compared = compare_jobs(fold(cut_at(events, seen)), seen, shards(spark)).collect()

    assert {each["id"]: each["differs"] for each in compared} == {
        "early": False,
        "moved": False,
        "late": True,  # the row is active before the claim
        "new": True,  # the row is missing
        "other": True,
    }
    assert [each["id"] for each in compared if each["has_moved"]] == ["late"]
    assert not any(each["is_partial"] or each["is_misplaced"] for each in compared)


def test_a_journal_without_its_first_events_gives_no_difference_for_them(spark: SparkSession) -> None:
    events = journal(spark, event(6, "claimed", "claimed", fence=1), ended(7, "done", "done"))
    rows = records(
        spark,
        row("waiting", 7, "before"),
        row("active", 7, "claimed", fence=1, attempts=3),
        row("done", 7, "done", run_at=None, payload_bytes=None),
    )
    seen = seen_jobs(rows)

    compared = compare_jobs(fold(cut_at(events, seen)), seen, shards(spark, is_whole=False)).collect()

    assert {each["id"]: (each["differs"], each["is_partial"]) for each in compared} == {
        "before": (False, True),
        "claimed": (False, True),
        "done": (False, False),
    }


def test_numbers_times_and_events_that_cannot_follow_are_flaws(spark: SparkSession) -> None:
    events = journal(
        spark,
        enqueued(1, "a"),
        enqueued(2, "b"),
        ended(3, "done", "b"),
        {**event(4, "claimed", "a", fence=5), "happened_at": T0},
        event(4, "configured", None),
        ended(7, "retried", "a", fence=5, run_at=T0),
        event(8, "claimed", "a", fence=4),
        enqueued(9, "a"),
    )

    numbers, order = number_flaws(events).collect(), order_flaws(events, shards(spark)).collect()

    assert sorted((each["what"], each["seq"], each["before"], each["after"]) for each in numbers) == [
        ("backwards", 4, "2026-01-01 00:00:03", "2026-01-01 00:00:00"),
        ("duplicate", 4, "4", "4"),
        ("gap", 7, "4", "7"),
    ]
    assert sorted((each["what"], each["id"], each["seq"], each["before"], each["after"]) for each in order) == [
        ("fence", "a", 8, "5", "4"),
        ("impossible", "a", 9, "active", None),
        ("impossible", "b", 3, "waiting", "1"),
    ]


def test_dead_letters_that_were_removed_with_their_job_are_gone(spark: SparkSession) -> None:
    events = journal(
        spark,
        ended(6, "dead", dead_letter=1, reason="failed"),
        ended(7, "dead", dead_letter=2, reason="failed"),
        event(8, "purged", dead_letter=1),
        event(9, "removed"),
        ended(10, "dead", dead_letter=3, reason="failed"),
        event(11, "removed", reason="lost"),
    )

    [folded] = fold(uncut(events)).collect()

    history = JobHistory.of(folded.asDict(recursive=True))
    assert (sorted(history.dead_letters), sorted(history.gone)) == ([3], [1, 2])


def test_a_dead_letter_with_another_reason_than_its_death_differs(spark: SparkSession) -> None:
    events = journal(
        spark,
        ended(1, "dead", "same", dead_letter=1, reason="failed"),
        ended(2, "dead", "other", dead_letter=2, reason="stalls"),
    )
    rows = records(
        spark,
        row("dead", 2, "same", dead_letter=1, reason="failed"),
        row("dead", 2, "other", dead_letter=2, reason="failed"),
    )

    compared = compare_dead_letters(fold_dead_letters(events), rows, shards(spark)).collect()

    assert [(each["id"], each["differs"]) for each in compared] == [("other", True)]
