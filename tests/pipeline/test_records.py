"""Promises of records in Spark: jobs in every state, results and dead letters as the store holds them now."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from secrets import token_hex
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import EqualTo, In, Not

from headrace.model.claim import Claim, ClaimRequest
from headrace.model.errors import BadConfig
from headrace.model.event import Bounds
from headrace.model.feed import FeedName
from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Done, Failed, JobError, Retried
from headrace.model.policy import Policy
from headrace.model.results import ALL_IDS, Found
from headrace.pipeline.source.records.reader import RecordLookup, ShardScan, look_up
from headrace.stores.contract.store import Store
from tests.pipeline.shared_stores import SERVED, Batch, call_store, fresh_url
from tests.pipeline.store_scenarios import ODD_MESSAGE, instant
from tests.support.stores import STORES

MAIL, MANY = Queue("mail", "acme", 2), Queue("many", "acme", 3)
Row = dict[str, Any]


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return fresh_url("sqlite", tmp_path)


def job(id: str, queue: Queue = MAIL, **fields: Any) -> Job:
    return Job(queue=queue, id=id, kind=f"kind of {id}", payload=b'{"user":{"id":7}}', **fields)


async def claim(store: Store, *ids: str) -> dict[str, Claim]:
    """Deliveries of the jobs that wait, by id: exactly these."""
    request = ClaimRequest(queues=[MAIL], worker="one", nonce=token_hex(8), limit=100)
    claims = {claim.record.id: claim for claim in (await store.jobs.claim(request)).items}
    assert set(claims) == set(ids)
    return claims


async def all_states(store: Store) -> None:
    """One job in each state; `dead` died twice, `failed` waits for its second attempt."""
    await store.queues.configure(MAIL, {"priority": 7})
    error = JobError.of("Odd", ODD_MESSAGE)
    for _ in range(2):
        await store.jobs.enqueue([job("dead", tag="grave", headers={"from": "é", "to": ""})])
        await store.jobs.settle([(await claim(store, "dead"))["dead"].settle(Failed(error), 1)])
    await store.jobs.enqueue([job("done"), job("failed", policy=Policy(backoff_ms=10**9)), job("cancelled")])
    await store.jobs.cancel(MAIL, ["cancelled"])
    claims = await claim(store, "done", "failed")
    await store.jobs.settle([claims["done"].settle(Done(b'{"sent":true}'), 1)])
    await store.jobs.settle([claims["failed"].settle(Retried(error), 1)])
    await store.jobs.enqueue([job("active", policy=Policy(priority=2))])
    await claim(store, "active")
    await store.jobs.enqueue([job("active", tag="blocked_job")])
    await store.jobs.cancel(MAIL, ["active"], running=True)
    await store.jobs.enqueue([job("active", tag="blocked_job"), job("waiting", tag="t", headers={"a": "b"})])
    odd = Job(queue=MAIL, id="bytes", kind="k", payload=b"\xff\x00")
    await store.jobs.enqueue([odd])


async def bounds_of(shard: Shard, store: Store) -> Bounds:
    return await store.journal.bounds(shard)


def by_key(rows: list[Row]) -> dict[tuple[str, str], Row]:
    """Rows by id and state; of dead letters the last."""
    return {(row["id"], row["state"]): row for row in rows}


def test_jobs_are_shown_in_every_state_with_every_column(url: str) -> None:
    call_store(url, all_states)

    rows = Batch(url=url, what="jobs", tenant="acme").rows
    found = by_key(rows)

    assert sorted((row["id"], row["state"]) for row in rows) == [
        ("active", "active"),
        ("active", "blocked"),
        ("bytes", "waiting"),
        ("cancelled", "cancelled"),
        ("dead", "dead"),
        ("dead", "dead"),
        ("done", "done"),
        ("failed", "waiting"),
        ("waiting", "waiting"),
    ]
    [known] = call_store(url, lambda store: store.reads.find(MAIL, ["active"]))
    assert known is not None
    assert known.record is not None
    active = found["active", "active"]
    assert {name: value for name, value in active.items() if value is not None} == {
        "tenant": "acme",
        "queue": "mail",
        "shard": MAIL.index_of("active"),
        "id": "active",
        "state": "active",
        "kind": "kind of active",
        "priority": 2,
        "attempts": 0,
        "stalls": 0,
        "enqueued_at": instant(known.record.enqueued_at_ms),
        "run_at": instant(known.record.run_at_ms),
        "fence": known.fence,
        "worker": "one",
        "lease_expires_at": instant(known.lease_expires_at_ms),
        "cancel_asked": True,
        "payload_bytes": 17,
        "payload": '{"user":{"id":7}}',
        "headers": [],
        "epoch": active["epoch"],
        "as_of_seq": active["as_of_seq"],
    }
    waiting, blocked_job = found["waiting", "waiting"], found["active", "blocked"]
    assert (waiting["priority"], waiting["tag"], waiting["headers"], waiting["fence"]) == (7, "t", [("a", "b")], None)
    assert (blocked_job["tag"], blocked_job["priority"], blocked_job["fence"], blocked_job["cancel_asked"]) == (
        "blocked_job",
        7,
        None,
        False,
    )
    failed, odd = found["failed", "waiting"], found["bytes", "waiting"]
    assert (failed["attempts"], failed["error_class"], failed["error_message"]) == (1, "Odd", ODD_MESSAGE)
    assert (odd["payload"], odd["payload_bytes"]) == (None, 2)
    done, cancelled, dead = found["done", "done"], found["cancelled", "cancelled"], found["dead", "dead"]
    assert (done["result"], done["priority"], done["payload"]) == ('{"sent":true}', None, None)
    assert done["ended_at"] >= done["enqueued_at"]
    assert (cancelled["result"], cancelled["ended_at"] is None) == (None, False)
    assert (dead["reason"], dead["error_message"], dead["headers"]) == (
        "failed",
        ODD_MESSAGE,
        [("from", "é"), ("to", "")],
    )
    assert dead["ended_at"] >= dead["enqueued_at"]


def test_rows_tell_how_far_the_journal_was_when_they_were_read(url: str) -> None:
    call_store(url, all_states)

    rows = Batch(url=url, what="jobs", tenant="acme", columns="shard,epoch,as_of_seq").rows

    for shard in MAIL.all_shards():
        bounds = call_store(url, partial(bounds_of, shard))
        positions = {(row["epoch"], row["as_of_seq"]) for row in rows if row["shard"] == shard.index}
        assert positions == {(bounds.epoch, bounds.last_seq)}


def test_dead_letters_are_shown_each_with_its_number_and_until_when_it_is_kept(url: str) -> None:
    call_store(url, all_states)
    dead_letters = call_store(url, lambda store: store.dead.list(MAIL)).rows

    rows = sorted(Batch(url=url, what="dead", tenant="acme", queue="mail").rows, key=lambda row: row["dead_letter"])

    assert [
        (row["dead_letter"], row["id"], row["tag"], row["priority"], row["reason"], row["died_at"], row["kept_until"])
        for row in rows
    ] == [
        (each.key.number, "dead", "grave", 7, "failed", instant(each.died_at_ms), instant(each.until_ms))
        for each in sorted(dead_letters, key=lambda each: each.key.number)
    ]
    assert {(row["payload"], row["error_class"], row["shard"]) for row in rows} == {
        ('{"user":{"id":7}}', "Odd", MAIL.index_of("dead"))
    }


def test_results_are_what_is_kept_of_jobs_that_ended(url: str) -> None:
    call_store(url, all_states)

    rows = sorted(Batch(url=url, what="results", tenant="acme").rows, key=lambda row: row["id"])

    shown = ("id", "outcome", "kind", "attempts", "kept", "result")
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("cancelled", "cancelled", "kind of cancelled", 0, True, None),
        ("done", "done", "kind of done", 0, True, '{"sent":true}'),
    ]
    assert all(row["seq"] > 0 and row["ended_at"] >= row["enqueued_at"] for row in rows)


def test_a_queue_of_several_parts_is_read_whole_and_each_job_once(url: str) -> None:
    async def fill(store: Store) -> None:
        for first in range(0, 5_000, 1_000):
            await store.jobs.enqueue([job(f"job-{first + number}", MANY) for number in range(1_000)])

    call_store(url, fill)

    batch = Batch(url=url, what="jobs", tenant="acme", queue="many", columns="id,shard")

    assert sorted(row["id"] for row in batch.rows) == sorted(f"job-{number}" for number in range(5_000))
    assert all(row["shard"] == MANY.index_of(row["id"]) for row in batch.rows)
    assert batch.sizes == [5_000]


def test_a_read_of_dead_jobs_looks_at_nothing_else(file_url: str) -> None:
    call_store(file_url, all_states)

    dead = Batch(EqualTo(("state",), "dead"), EqualTo(("queue",), "mail"), url=file_url, what="jobs", tenant="acme")
    other = Batch(Not(In(("state",), ("waiting", "active", "dead"))), url=file_url, what="jobs", tenant="*")
    results = Batch(EqualTo(("outcome",), "dead"), url=file_url, what="results", tenant="acme")
    nobody = Batch(EqualTo(("queue",), "other"), url=file_url, what="jobs", tenant="acme")

    assert [part.work for part in dead.parts] == [tuple(ShardScan(shard, ("dead",)) for shard in MAIL.all_shards())]
    assert {row["state"] for row in dead.rows} == {"dead"}
    assert {each.groups for part in other.parts for each in part.work} == {("alive", "ended")}
    assert {row["state"] for row in other.rows} == {"blocked", "done", "cancelled"}
    assert (results.parts, nobody.parts, dead.left) == ([], [], [])


def test_records_whose_ids_are_named_are_found_without_going_through_the_others(url: str) -> None:
    async def fill(store: Store) -> None:
        await all_states(store)
        await store.jobs.enqueue([job(f"job-{number}", MANY) for number in range(30)])

    call_store(url, fill)
    options = {"url": url, "tenant": "acme"}
    named = In(("id",), ("active", "dead", "done", "job-7", "unknown", "x" * 9_999, None))

    for what in ("jobs", "dead", "results"):
        found, all_rows = Batch(named, **options, what=what), Batch(**options, what=what).rows

        assert found.rows
        assert sorted(found.rows, key=str) == sorted(
            (row for row in all_rows if row["id"] in ("active", "dead", "done", "job-7")), key=str
        )
        assert found.left == []
        assert {type(each) for part in found.parts for each in part.work} == {RecordLookup}
    one = Batch(EqualTo(("id",), "active"), EqualTo(("queue",), "mail"), **options, what="jobs")
    blocked = Batch(EqualTo(("id",), "active"), EqualTo(("state",), "blocked"), **options, what="jobs").rows
    assert [part.work for part in one.parts] == [(RecordLookup(MAIL, ("active",)),)]
    assert [row["state"] for row in blocked] == ["blocked"]
    assert Batch(EqualTo(("id",), "active"), In(("id",), ("done",)), **options, what="jobs").parts == []
    assert Batch(EqualTo(("id",), "active"), EqualTo(("state",), "gone"), **options, what="jobs").parts == []


async def test_records_that_are_found_say_as_of_which_seq_they_are(tmp_path: Path) -> None:
    async with STORES["memory"](tmp_path) as store:
        await store.jobs.enqueue([job("mine"), job("other")])
        shard = MAIL.shard_of("mine")
        moves = iter([["mine"], ["other"], []])

        class Restless:
            """The store's reads, after each of which jobs of the next move are cancelled."""

            async def find(self, queue: Queue, ids: Sequence[str]) -> Sequence[Found | None]:
                found = await store.reads.find(queue, ids)
                await store.jobs.cancel(queue, next(moves))
                return found

        moving: Any = SimpleNamespace(reads=Restless(), journal=store.journal)
        [found] = await look_up(moving, RecordLookup(MAIL, ("mine",)), with_seq=True)

        assert [each.state for each in found.found] == ["cancelled"]
        assert (found.shard, found.seq) == (shard, (await store.journal.bounds(shard)).last_seq)
        assert next(moves) == []


def test_a_large_shard_is_read_by_several_tasks_each_row_once(url: str) -> None:
    one = Queue("one", "acme")

    async def fill(store: Store) -> None:
        await all_states(store)
        await store.jobs.enqueue([job(f"job-{number:02}", one) for number in range(30)])

    call_store(url, fill)
    options = {"url": url, "what": "jobs", "tenant": "acme"}

    whole, cut = Batch(**options), Batch(**options, maxEventsPerPartition="7")

    names = ("queue", "id", "state", "dead_letter")
    known = [sorted((tuple(row[name] for name in names) for row in each.rows), key=str) for each in (whole, cut)]
    assert known[0] == known[1]
    ranges = [each.ids for part in cut.parts for each in part.work if each.shard == Shard(one)]
    if url.startswith("redis"):
        assert ranges == [ALL_IDS]
    else:
        assert len(ranges) == 5
        assert {sum(each.holds(f"job-{number:02}") for number in range(30)) for each in ranges} == {6}


def test_as_many_tasks_as_asked_for_read_the_same_rows(file_url: str) -> None:
    async def fill(store: Store) -> None:
        await all_states(store)
        await store.jobs.enqueue([job(f"job-{number}", MANY) for number in range(30)])

    call_store(file_url, fill)
    options = {"url": file_url, "what": "jobs", "tenant": "acme"}

    one, four, many = (Batch(**options, minPartitions=least) for least in ("1", "4", "100"))

    assert (len(one.parts), len(four.parts), len(many.parts)) == (1, 4, 15)
    assert {each.groups for part in four.parts for each in part.work} == {("alive", "ended", "dead")}
    sorted_ids = [sorted((row["id"], row["state"]) for row in batch.rows) for batch in (one, four, many)]
    assert sorted_ids[0] == sorted_ids[1] == sorted_ids[2]


def test_without_payloads_and_with_columns_only_what_is_asked_for_is_there(file_url: str) -> None:
    call_store(file_url, all_states)

    jobs = Batch(url=file_url, what="jobs", tenant="acme", payloads="false").rows
    dead = Batch(url=file_url, what="dead", tenant="acme", columns="dead_letter,payload").rows

    assert {"payload", "headers", "result"}.isdisjoint(jobs[0])
    assert "payload_bytes" in jobs[0]
    assert [list(row) for row in dead] == [["dead_letter", "payload"]] * 2
    with pytest.raises(BadConfig, match=r"option columns names 'payload', which does not exist; known columns: tenant"):
        Batch(url=file_url, what="dead", tenant="acme", payloads="false", columns="payload")


def test_a_store_without_records_gives_no_rows_and_nothing_to_do(file_url: str) -> None:
    empty = Batch(url=file_url, what="jobs", tenant="*")
    call_store(file_url, lambda store: store.queues.configure(MAIL, {"priority": 7}))

    assert (empty.parts, Batch(url=file_url, what="jobs", tenant="*").parts) == ([], [])


def test_a_check_of_rows_also_reads_records_that_no_counter_includes(file_url: str, tmp_path: Path) -> None:
    call_store(file_url, lambda store: store.jobs.enqueue([job("hidden")]))
    with closing(sqlite3.connect(tmp_path / "headrace.db")) as file, file:
        file.execute("UPDATE shard SET ready = 0, later = 0")

    usual = Batch(url=file_url, what="jobs", tenant="*")
    checking = Batch(url=file_url, what="jobs", tenant="*", columns="id,as_of_seq")

    assert (usual.parts, checking.rows) == ([], [{"id": "hidden", "as_of_seq": 1}])


def test_sql_joins_dead_letters_with_jobs_through_views(spark: SparkSession, file_url: str) -> None:
    call_store(file_url, all_states)
    call_store(file_url, lambda store: store.feeds.create(FeedName("board", "acme"), "sorted", instance="me"))
    for what in ("journal", "jobs", "results", "dead", "feed"):
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY VIEW hr_{what} USING headrace"
            f" OPTIONS (url '{file_url}', what '{what}', tenant 'acme')"
        )

    counted = {what: spark.table(f"hr_{what}").count() for what in ("jobs", "results", "dead", "feed")}
    joined = spark.sql(
        "SELECT d.dead_letter, j.state, j.dead_letter IS NOT NULL AS is_dead, e.events FROM hr_dead d"
        " JOIN hr_jobs j ON j.queue = d.queue AND j.id = d.id AND j.dead_letter = d.dead_letter"
        " JOIN (SELECT id, count(*) AS events FROM hr_journal WHERE event = 'dead' GROUP BY id) e ON e.id = d.id"
        " WHERE j.state = 'dead' ORDER BY d.dead_letter"
    ).collect()

    assert counted == {"jobs": 9, "results": 2, "dead": 2, "feed": 0}
    assert [(row.state, row.is_dead, row.events) for row in joined] == [("dead", True, 2)] * 2


def test_payloads_are_read_with_from_json_and_parse_json(spark: SparkSession, file_url: str) -> None:
    call_store(file_url, all_states)
    jobs = spark.read.format("headrace").options(url=file_url, what="jobs", tenant="acme").load()
    waiting = jobs.where("state = 'waiting' AND id <> 'failed'")

    typed = waiting.select("id", f.from_json("payload", "user STRUCT<id: INT>").alias("it")).select("id", "it.user.id")
    free = waiting.selectExpr("id", "parse_json(payload):user.id::int AS user", "headers['a'] AS header")

    assert sorted(map(tuple, typed.collect())) == [("bytes", None), ("waiting", 7)]
    assert sorted(map(tuple, free.collect())) == [("bytes", None, None), ("waiting", 7, "b")]
