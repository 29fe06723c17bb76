"""Promises of results in Spark as a stream: every job that is done, once, with its result as long as it is kept."""

from collections.abc import Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.model.claim import ClaimRequest
from headrace.model.errors import BadConfig, Refused
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError, Outcome
from headrace.model.policy import Policy
from headrace.stores.contract.store import Store
from tests.pipeline.player import Checkpoint, Row, playing
from tests.pipeline.shared_stores import SERVED, Batch, call_store, fresh_url
from tests.pipeline.store_scenarios import instant

MAIL, NEWS = Queue("mail", "acme", 2), Queue("news", "acme")
KEPT = Policy(result_ttl_ms=3_600_000)


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


def finish(url: str, outcomes: dict[str, Outcome], queue: Queue = MAIL, now_ms: int | None = None) -> None:
    """Let jobs be enqueued, claimed and settled."""

    async def finish_jobs(store: Store) -> None:
        jobs = [Job(queue=queue, id=id, kind=f"kind of {id}", tag="t", policy=KEPT) for id in outcomes]
        for first in range(0, len(jobs), 1_000):
            await store.jobs.enqueue(jobs[first : first + 1_000], now_ms=now_ms)
        while True:
            request = ClaimRequest(queues=[queue], worker="one", nonce=token_hex(8), limit=1_000)
            claims = (await store.jobs.claim(request, now_ms=now_ms)).items
            if not claims:
                return
            await store.jobs.settle([claim.settle(outcomes[claim.record.id], 3) for claim in claims], now_ms=now_ms)

    call_store(url, finish_jobs)


def done(*ids: str) -> dict[str, Outcome]:
    """Each id with a result that names it."""
    return {id: Done(b'{"of":"%s"}' % id.encode()) for id in ids}


def results(rows: Sequence[Row] | None) -> list[tuple[Any, ...]]:
    return sorted((row["queue"], row["id"], row["kept"], row["result"]) for row in rows or [])


def result_rows(queue: str, *ids: str) -> list[tuple[Any, ...]]:
    return [(queue, id, True, f'{{"of":"{id}"}}') for id in ids]


def test_a_stream_tells_each_job_that_is_done_with_its_result_and_every_column(url: str) -> None:
    finish(url, done("a") | {"dead": Failed(JobError.of("E")), "none": Done()})
    call_store(url, lambda store: store.jobs.enqueue([Job(queue=MAIL, id="waiting", kind="k", delay_ms=10**6)]))

    with playing(url=url, what="results", tenant="acme") as run:
        first = run.batch()
        finish(url, done("b"))
        second, third = run.batch(), run.batch()

    assert results(first) == [*result_rows("mail", "a"), ("mail", "none", True, None)]
    assert (results(second), third) == (result_rows("mail", "b"), None)
    finished_job = call_store(url, lambda store: store.reads.finished_job(MAIL, "a"))
    assert first is not None
    assert finished_job is not None
    [row] = [row for row in first if row["id"] == "a"]
    assert row == {
        "tenant": "acme",
        "queue": "mail",
        "shard": MAIL.index_of("a"),
        "epoch": row["epoch"],
        "seq": row["seq"],
        "id": "a",
        "outcome": "done",
        "kind": "kind of a",
        "tag": "t",
        "attempts": 0,
        "stalls": 0,
        "enqueued_at": instant(finished_job.enqueued_at_ms),
        "ended_at": instant(finished_job.ended_at_ms),
        "kept": True,
        "result": '{"of":"a"}',
    }


def test_a_result_that_is_gone_or_of_a_later_run_has_kept_false(url: str) -> None:
    finish(url, done("gone", "again", "stays"))
    call_store(url, lambda store: store.jobs.remove(MAIL, ["gone"]))
    first_ended = call_store(url, lambda store: store.reads.finished_job(MAIL, "again"))
    assert first_ended is not None
    finish(url, {"again": Done(b'"later"')}, now_ms=first_ended.ended_at_ms + 5)

    with playing(url=url, what="results", tenant="acme") as run:
        rows = run.batch()

    assert results(rows) == [
        ("mail", "again", False, None),
        ("mail", "again", True, '"later"'),
        ("mail", "gone", False, None),
        *result_rows("mail", "stays"),
    ]


def test_a_result_is_known_again_although_a_clock_went_back(url: str) -> None:
    finish(url, done("early"))
    now = call_store(url, lambda store: store.reads.finished_job(MAIL, "early"))
    assert now is not None
    # On both shards, one of which has seen a later time.
    finish(url, done(*"abcdef"), now_ms=now.ended_at_ms - 1_000)

    with playing(url=url, what="results", tenant="acme") as run:
        rows = run.batch()

    assert results(rows) == result_rows("mail", *"abcde", "early", "f")


def test_a_limited_stream_of_results_reaches_the_end_and_goes_on_from_its_checkpoint(url: str) -> None:
    ids = [f"job-{number}" for number in range(1_200)]
    finish(url, done(*ids), NEWS)
    kept = Checkpoint()
    options: dict[str, Any] = {"url": url, "what": "results", "tenant": "acme"}
    with playing(kept, **options, maxEventsPerTrigger="2000") as run:
        first = run.batch()
    with playing(kept, **options, available_now=True) as run:
        rest = run.rest()

    # One task, and more results than one look at the store may ask for.
    assert (run.partitions, [len(batch) for batch in rest]) == (1, [1_200])
    assert results([*(first or []), *rest[0]]) == sorted(result_rows("news", *ids))


def test_columns_of_the_event_alone_need_no_look_at_finished_jobs(tmp_path: Path) -> None:
    url = fresh_url("sqlite", tmp_path)
    finish(url, done("a"))

    with playing(url=url, what="results", tenant="acme", columns="outcome,id,kind") as run:
        rows = run.batch()

    assert rows == [{"outcome": "done", "id": "a", "kind": "kind of a"}]


def test_losses_are_refused_as_they_are_for_the_journal(tmp_path: Path) -> None:
    url = fresh_url("sqlite", tmp_path)
    finish(url, done("a"), NEWS)
    kept = Checkpoint()
    options: dict[str, Any] = {"url": url, "what": "results", "tenant": "acme", "queue": "news"}
    with playing(kept, **options) as run:
        run.batch()
    finish(url, done("b", "c"), NEWS)
    call_store(url, lambda store: store.queues.configure(NEWS, {"journal_keep_max": 1}))
    [shard] = NEWS.all_shards()
    call_store(url, lambda store: store.journal.trim(shard))

    with playing(kept, **options) as run, pytest.raises(Refused, match=r"acme/news/0 up to seq 3, and retention has"):
        run.batch()
    with pytest.raises(BadConfig, match=r"startingOffsets is for streams of results, and a batch reads everything"):
        Batch(url=url, what="results", startingOffsets="earliest")


def test_spark_streams_results(spark: SparkSession, url: str, tmp_path: Path) -> None:
    ids = [f"job-{number}" for number in range(50)]
    finish(url, done(*ids))
    stream = spark.readStream.format("headrace").options(url=url, what="results", tenant="acme").load()

    query = (
        stream.selectExpr("id", "parse_json(result):of::string AS of", "kept")
        .writeStream.format("memory")
        .queryName("results")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(100)

    assert sorted(map(tuple, spark.table("results").collect())) == sorted((id, id, True) for id in ids)
