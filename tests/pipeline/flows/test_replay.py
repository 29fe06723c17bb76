"""Promises of `replay_dead_letters`: matching dead letters are counted, replayed once, and spread over time."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig, Refused
from headrace.model.job import Job, State
from headrace.model.names import Queue
from headrace.model.outcome import Failed, JobError
from headrace.pipeline import replay_dead_letters
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.sink.dead_letters import DeadSink, Spread
from headrace.pipeline.source.sink.result import new_run
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.pipeline.shared_stores import call_store, fresh_url
from tests.pipeline.writes import FAILED, batches, drain, events, schema_of, waiting, work

MAIL, SHIP = Queue("mail", "acme", 2), Queue("ship", "other")
HOUR_MS = 3_600_000


@pytest.fixture
def url(tmp_path: Path) -> str:
    return fresh_url("sqlite", tmp_path)


def kill(url: str, queue: Queue, error: str, *ids: str, kind: str = "k") -> None:
    """Make jobs die of an error."""

    async def send(store: Store) -> None:
        payloads = [b'{"id":"%s"}' % id.encode() for id in ids]
        jobs = [Job(queue=queue, id=id, kind=kind, payload=payload) for id, payload in zip(ids, payloads, strict=True)]
        await store.jobs.enqueue(jobs)

    call_store(url, send)
    drain(url, queue, Failed(JobError.of(error, "it failed")))


def ids(url: str, queue: Queue) -> list[str]:
    return [record.id for record in waiting(url, queue)]


def test_matching_dead_letters_are_counted_in_groups_and_replayed_once(spark: SparkSession, url: str) -> None:
    kill(url, MAIL, "Timeout", "a", "b", "c", kind="send")
    kill(url, MAIL, "KeyError", "d")
    kill(url, SHIP, "Timeout", "e")
    call_store(url, lambda store: store.jobs.enqueue([Job(queue=MAIL, id="c", kind="send", delay_ms=HOUR_MS)]))
    where = "error_class = 'Timeout' and died_at > '2020-01-01'"

    would = replay_dead_letters(spark, url, where, dry_run=True)
    untouched = events(url, MAIL)["replayed"], ids(url, SHIP)
    first = replay_dead_letters(spark, url, where, delay="1h", died_before_ms=would.died_before_ms)
    second = replay_dead_letters(spark, url, "error_class = 'Timeout' and id <> 'c'")

    assert (would.dry, would.found, would.sentence()) == (True, 4, "4 dead letters would be replayed")
    assert [(each.tenant, each.queue, each.kind, each.error_class, each.dead_letters) for each in would.groups] == [
        ("acme", "mail", "send", "Timeout", 3),
        ("other", "ship", "k", "Timeout", 1),
    ]
    assert all(0 < each.first_died_at_ms <= each.last_died_at_ms <= would.died_before_ms for each in would.groups)
    assert untouched == (0, [])
    assert (first.found, first.replayed, first.in_use, first.not_found, first.groups) == (4, 3, 1, 0, would.groups)
    assert first.sentence() == "of 4 dead letters 3 replayed, 1 in use"
    assert (ids(url, MAIL), ids(url, SHIP)) == (["a", "b", "c"], ["e"])
    assert all(record.run_at_ms - record.enqueued_at_ms >= HOUR_MS for record in waiting(url, SHIP))
    assert (second.found, second.sentence()) == (0, "no dead letter matches")


def test_dead_letters_are_selected_by_tenant_queue_limit_and_payload(spark: SparkSession, url: str) -> None:
    kill(url, SHIP, "Timeout", "old")
    kill(url, SHIP, "Timeout", "new")
    kill(url, MAIL, "Timeout", "a")

    by_limit = replay_dead_letters(spark, url, "true", tenant="other", queue="ship", limit=1)
    by_payload = replay_dead_letters(spark, url, "get_json_object(payload, '$.id') = 'a'", keep_counts=True)

    assert (by_limit.found, by_limit.replayed, ids(url, SHIP)) == (1, 1, ["old"])
    assert (by_payload.replayed, ids(url, MAIL)) == (1, ["a"])
    assert waiting(url, MAIL)[0].attempts == 1


def test_a_dead_letter_that_died_after_the_count_is_left_alone(spark: SparkSession, url: str) -> None:
    kill(url, SHIP, "Timeout", "shown")
    would = replay_dead_letters(spark, url, "true", dry_run=True)
    kill(url, SHIP, "Timeout", "later")

    done = replay_dead_letters(spark, url, "true", died_before_ms=would.died_before_ms)

    assert (would.found, done.found, ids(url, SHIP)) == (1, 1, ["shown"])


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("died_at >", r"^where 'died_at >' is not SQL that Spark understands: Syntax error at or near end of input$"),
        (
            "error = 'x'",
            r"^where \"error = 'x'\" names 'error', which does not exist; columns are tenant, queue, shard,",
        ),
        ("attempts", r"^where 'attempts' is int, not true or false; write a condition, as in: kind = 'mail'$"),
        (
            "dead_letter > 'x'",
            r"^where \"dead_letter > 'x'\" fails on a row: cannot cast 'x' to bigint",
        ),
        (
            "cast(id as int) > 0",
            r"^where 'cast\(id as int\) > 0' fails on a row: cannot cast 'job' to int",
        ),
    ],
)
def test_an_invalid_condition_is_one_sentence_and_nothing_is_written(
    spark: SparkSession, url: str, where: str, sentence: str
) -> None:
    kill(url, SHIP, "Timeout", "7")
    kill(url, SHIP, "Timeout", "job")

    with pytest.raises(BadConfig, match=sentence):
        replay_dead_letters(spark, url, where)

    assert (ids(url, SHIP), events(url, SHIP)["replayed"]) == ([], 0)


def test_other_wrong_arguments_are_refused_before_spark_reads_anything(spark: SparkSession, url: str) -> None:
    with pytest.raises(Refused, match="spread 'soon' is not a valid duration"):
        replay_dead_letters(spark, url, "true", spread="soon")
    with pytest.raises(BadConfig, match="delay and spread together are more than a year; make them shorter"):
        replay_dead_letters(spark, url, "true", delay="366d", spread="1d")
    with pytest.raises(BadConfig, match="limit is 0; give a number from 1 on, or none for all"):
        replay_dead_letters(spark, url, "true", limit=0)


async def test_dead_letters_of_many_queues_and_tasks_are_due_evenly_over_the_whole_time() -> None:
    """Most queues have one dead letter, and one has a batch and one more, in the rows of several tasks."""
    store = await open_store("memory://")
    queues = [Queue("many"), *(Queue(f"few-{number}") for number in range(400))]
    await store.jobs.enqueue([Job(queue=queues[0], id=f"job-{number}", kind="k") for number in range(1_000)])
    await store.jobs.enqueue([Job(queue=queue, id="job", kind="k") for queue in queues])
    for queue in queues:
        await work(store, queue, FAILED)
    rows = [{"queue": queue.full_name, "id": "job"} for queue in queues]
    rows += [{"queue": "many", "id": f"job-{number}"} for number in range(1_000)]
    schema = schema_of("queue string, id string")
    sink = DeadSink(WriteOptions(url="", what="dead", spread_ms=HOUR_MS), schema)

    run = await new_run(store, "run")
    for task in (rows[:150], rows[150:300], rows[300:]):
        await sink.write(store, run, batches(schema, task, 100))

    due_ms = {queue: [each - run.started_at_ms for each in await due(store, queue)] for queue in queues}
    every = [each for queue in queues for each in due_ms[queue]]
    few = [each for queue in queues[1:] for each in due_ms[queue]]
    assert (len(every), len(few)) == (1_401, 400)
    for found in (every, few):
        tenths = Counter(min(each * 10 // HOUR_MS, 9) for each in found)
        assert all(abs(tenths[at] - len(found) / 10) <= len(found) / 50 for at in range(10)), tenths
    await store.close()


async def due(store: Store, queue: Queue) -> list[int]:
    """When the waiting jobs are due."""
    page = await store.reads.list(queue, State.WAITING, limit=1_000)
    rows = list(page.rows)
    while page.cursor is not None:
        page = await store.reads.list(queue, State.WAITING, cursor=page.cursor, limit=1_000)
        rows += page.rows
    return [row.record.run_at_ms for row in rows if row.record is not None]


@pytest.mark.parametrize("counts", [[1] * 1_000, [1_000], [1_000, 1], [7] * 150, [1, 1_000, 3, 500] * 5])
def test_rows_are_spread_evenly_over_the_time_in_calls_of_any_size(counts: list[int]) -> None:
    spread = Spread(HOUR_MS, 0.3)

    due_ms = []
    for count in counts:
        first_ms = spread.first_ms(count)
        due_ms += [first_ms + at * HOUR_MS // count for at in range(count)]  # as stores do

    due_ms.sort()
    assert 0 <= due_ms[0] <= due_ms[-1] < HOUR_MS
    ideal_ms = [(at + 0.5) * HOUR_MS / len(due_ms) for at in range(len(due_ms))]
    assert max(abs(due - ideal) for due, ideal in zip(due_ms, ideal_ms, strict=True)) < HOUR_MS / 100
