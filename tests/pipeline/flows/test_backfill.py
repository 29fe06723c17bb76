"""Promises of `backfill_jobs`: jobs behind events are enqueued again, once under a name, never without payload."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.errors import BadConfig
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.policy import Policy
from headrace.pipeline import DataDir, backfill_jobs
from headrace.pipeline.flows.backfill import job_rows, jobs_behind
from headrace.stores.contract.store import Store
from tests.pipeline.by_hand import ENQUEUED, Row, frame_of
from tests.pipeline.shared_stores import call_store, fresh_url
from tests.pipeline.writes import drain, waiting

MAIL, PLAIN = Queue("mail", "acme", 2), Queue("plain", "acme")
HOUR_MS = 3_600_000


def find_jobs(spark: SparkSession, *events: Row, where: str = "true") -> list[tuple[object, ...]]:
    """The jobs behind the matching events, as id, generation, kind and payload."""
    frame = with_payloads(spark, *events)
    rows = jobs_behind(frame, frame.where(where)).orderBy("id", "generation").collect()
    return [(row.id, row.generation, row.kind, row.payload) for row in rows]


def with_payloads(spark: SparkSession, *events: Row) -> DataFrame:
    """Events written by hand, with their payloads."""
    bare = frame_of(spark, *({name: value for name, value in event.items() if name != "payload"} for event in events))
    payloads = spark.createDataFrame(
        [(number, event.get("payload")) for number, event in enumerate(events, 1)], "seq long, payload string"
    )
    return bare.join(payloads, on="seq", how="inner")


def test_each_generation_behind_a_matching_event_is_one_job_with_its_last_payload(spark: SparkSession) -> None:
    story: list[Row] = [
        ENQUEUED | {"payload": "1"},
        ENQUEUED | {"event": "updated", "kind": "post", "payload": "2"},
        {"event": "claimed"},
        {"event": "done", "kind": "post"},
        ENQUEUED | {"payload": "3"},
        {"event": "dead", "kind": "mail", "dead_letter": 1},
        ENQUEUED | {"id": "other", "payload": "4"},
        {"event": "configured", "id": None},
    ]

    some = find_jobs(spark, *story, where="event in ('claimed', 'dead')")
    every = find_jobs(spark, *story)

    assert some == [("a", "1-1", "post", "2"), ("a", "1-5", "mail", "3")]
    assert every == [*some, ("other", "1-7", "mail", "4")]


def test_a_replayed_generation_has_the_payload_it_died_with_and_an_unrecorded_payload_stays_unknown(
    spark: SparkSession,
) -> None:
    done: Row = {"event": "done", "kind": "mail"}
    replayed: list[Row] = [
        ENQUEUED | {"payload": "1"},
        {"event": "dead", "dead_letter": 1},
        ENQUEUED | {"event": "replayed"},
        done,
    ]
    unrecorded: list[Row] = [ENQUEUED | {"payload": "1"}, done, ENQUEUED, done]
    merged: list[Row] = [
        ENQUEUED | {"payload": "1"},
        {"event": "blocked", "payload": "2"},
        ENQUEUED | {"event": "merged"},
        done,
    ]
    of_blocked: list[Row] = [{"event": "claimed"}, {"event": "blocked", "payload": "2", "tag": "wanted"}]
    stories: dict[str, list[Row]] = {
        "replayed": replayed,
        "unrecorded": unrecorded,
        "merged": merged,
        "of blocked": of_blocked,
    }
    stories["older"] = [{"event": "claimed"}, done]
    events = [event | {"id": id} for id, story in stories.items() for event in story]

    found = find_jobs(spark, *events, where="event = 'done' or tag = 'wanted'")

    assert found == [
        ("merged", "1-9", "mail", None),
        ("older", "until-1-16", "mail", None),
        ("replayed", "1-3", "mail", "1"),
        ("unrecorded", "1-5", "mail", "1"),
        ("unrecorded", "1-7", "mail", None),
    ]


def test_rows_are_due_evenly_over_the_time_in_any_partitioning(spark: SparkSession) -> None:
    generations = spark.range(0, 1_000, 1, 7).select(
        *(F.lit("x").alias(name) for name in ("tenant", "queue", "kind", "payload", "tag")),
        F.lit(1).alias("priority"),
        F.col("id").cast("string"),
        F.lit("1-1").alias("generation"),
    )

    rows = job_rows(generations, "fix", "there", HOUR_MS, 10_000).collect()

    tenths = [sum((row.delay_ms - HOUR_MS) // 1_000 == at for row in rows) for at in range(10)]
    assert sum(tenths) == 1_000
    assert all(80 <= count <= 120 for count in tenths), tenths
    assert {row.queue for row in rows} == {"there"}
    assert len({row.key for row in rows}) == len({row.id for row in rows}) == 1_000


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store whose queue `mail` records payloads and whose queue `plain` does not; all jobs are finished."""
    url = fresh_url("sqlite", tmp_path)

    async def send(store: Store) -> None:
        await store.queues.configure(MAIL, {"journal_payloads": True})
        for number in range(6):
            policy, kind = Policy(priority=7), "good" if number < 4 else "bad"
            payload = b'{"n":%d}' % number
            job = Job(queue=MAIL, id=f"m-{number}", kind=kind, payload=payload, tag="vip", policy=policy)
            await store.jobs.enqueue([job])
        await store.jobs.enqueue([Job(queue=PLAIN, id="p", kind="good", payload=b'"lost"')])

    call_store(url, send)
    drain(url, MAIL)
    drain(url, PLAIN)
    return url


def test_jobs_behind_events_are_enqueued_again_once_under_a_name(spark: SparkSession, url: str, tmp_path: Path) -> None:
    data_dir, where = DataDir(tmp_path / "headrace-data"), "event = 'done' and kind = 'good'"

    would = backfill_jobs(spark, url, data_dir, where, name="fix", dry_run=True)
    untouched = waiting(url, MAIL)
    first = backfill_jobs(spark, url, data_dir, where, name="fix")
    found = {record.payload: record for record in waiting(url, MAIL)}
    drain(url, MAIL)
    second = backfill_jobs(spark, url, data_dir, where, name="fix")
    otherwise = backfill_jobs(spark, url, data_dir, "kind = 'good' and tag = 'vip'", name="fix")
    other = backfill_jobs(
        spark, url, data_dir, where, name="more", tenant="acme", queue="mail", limit=1, to_kind="good too"
    )

    assert (would.dry, would.origin, would.events, would.jobs, would.created, untouched) == (
        True,
        "journal",
        5,
        5,
        0,
        [],
    )
    assert would.sentence() == (
        "4 jobs would be enqueued again; of 1 job the payload or kind is unknown, for example acme/plain/p"
    )
    assert [(each.queue, each.kind, each.jobs, each.missing, each.events) for each in would.groups] == [
        ("mail", "good", 4, 0, 4),
        ("plain", "good", 1, 1, 1),
    ]
    assert (first.created, first.duplicate, first.missing, first.refused) == (4, 0, 1, {})
    assert first.missing_examples == ("acme/plain/p",)
    assert (second.jobs, second.created, second.duplicate) == (5, 0, 4)
    assert (otherwise.jobs, otherwise.created, otherwise.duplicate) == (4, 0, 4)
    assert (other.jobs, other.created, [record.kind for record in waiting(url, MAIL)]) == (1, 1, ["good too"])
    assert sorted(found) == [b'{"n":%d}' % number for number in range(4)]
    assert {(record.tag, record.policy.priority) for record in found.values()} == {("vip", 7)}
    assert waiting(url, PLAIN) == []


def test_jobs_that_were_not_counted_are_not_enqueued(spark: SparkSession, url: str, tmp_path: Path) -> None:
    data_dir, where = DataDir(tmp_path / "headrace-data"), "event = 'done' and kind = 'good' and queue = 'mail'"

    would = backfill_jobs(spark, url, data_dir, where, name="fix", dry_run=True)
    call_store(url, lambda store: store.jobs.enqueue([Job(queue=MAIL, id="late", kind="good", payload=b"1")]))
    drain(url, MAIL)
    done = backfill_jobs(spark, url, data_dir, where, name="fix", happened_before_ms=would.happened_before_ms)
    later = backfill_jobs(spark, url, data_dir, where, name="fix", dry_run=True)

    assert (would.jobs, done.jobs, done.created, later.jobs) == (4, 4, 4, 5)


def test_a_payload_may_be_made_by_sql_and_a_null_is_missing(spark: SparkSession, url: str, tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / "headrace-data")

    done = backfill_jobs(
        spark,
        url,
        data_dir,
        "event = 'done'",
        name="made",
        to_queue="new",
        payload="if(id = 'm-0', null, struct(id, tag))",
    )

    assert (done.jobs, done.created, done.missing, done.missing_examples) == (7, 6, 1, ("acme/mail/m-0",))
    payloads = sorted(record.payload for record in waiting(url, Queue("new", "acme")))
    assert payloads[0] == b'{"id":"m-1","tag":"vip"}'
    assert payloads[-1] == b'{"id":"p","tag":null}'


@pytest.mark.parametrize(
    ("where", "payload", "sentence"),
    [
        ("event =", None, r"^where 'event =' is not SQL that Spark understands: Syntax error at or near end of input$"),
        (
            "died_at is null",
            None,
            r"^where 'died_at is null' names 'died_at', which does not exist; columns are tenant,",
        ),
        ("kind", None, r"^where 'kind' is string, not true or false; write a condition, as in: kind = 'mail'$"),
        ("seq > 'x'", None, r"^where \"seq > 'x'\" fails on a row: cannot cast 'x' to bigint; let it give null"),
        (
            "true",
            "struct(idd)",
            r"^payload 'struct\(idd\)' names 'idd', which does not exist; columns are tenant, queue,",
        ),
        (
            "true",
            "cast(id as int)",
            r"^payload 'cast\(id as int\)' fails on a row: cannot cast '.*' to int",
        ),
        ("true", "cast(id as binary)", r"^column 'payload' of a write with what=jobs must be string with JSON in it"),
    ],
)
def test_invalid_sql_is_one_sentence_and_nothing_is_written(
    spark: SparkSession, url: str, tmp_path: Path, where: str, payload: str | None, sentence: str
) -> None:
    with pytest.raises(BadConfig, match=sentence):
        backfill_jobs(
            spark, url, DataDir(tmp_path / "headrace-data"), where, name="bad", payload=payload, tenant="acme"
        )

    assert waiting(url, MAIL) == []


def test_an_invalid_name_is_refused(spark: SparkSession, url: str, tmp_path: Path) -> None:
    for name in ("", "a/b", "x" * 81):
        with pytest.raises(BadConfig, match=r"name is '.*'; give 1 to 80 printable characters other than '/'"):
            backfill_jobs(spark, url, DataDir(tmp_path / "headrace-data"), "true", name=name)


def test_a_removed_job_keeps_its_tag_and_priority(spark: SparkSession) -> None:
    events = frame_of(spark, ENQUEUED, {"event": "removed", "kind": "mail", "reason": "waiting"})

    [row] = jobs_behind(events, events.where("event = 'removed'")).collect()

    assert (row.kind, row.tag, row.priority) == ("mail", "vip", 5)


def test_jobs_behind_events_without_payloads_have_none(spark: SparkSession) -> None:
    events = frame_of(spark, ENQUEUED, {"event": "done", "kind": "mail"})

    [row] = jobs_behind(events, events.where("event = 'done'")).collect()

    assert (row.generation, row.kind, row.tag, row.priority, row.payload) == ("1-1", "mail", None, None, None)
