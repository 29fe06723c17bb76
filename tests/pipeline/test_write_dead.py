"""Promises of a write of dead letters: each is replayed once, and the counts are true when tasks run again."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.model.errors import BadConfig
from headrace.model.finished import DeadLetter
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.results import Replayed
from headrace.pipeline.sinks import replay
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.sink.dead_letters import DeadSink
from headrace.pipeline.source.sink.result import WriteRun
from headrace.pipeline.source.store_access import this_host
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.testing.faults import FaultyStore
from tests.pipeline.shared_stores import SERVED, call_store, fresh_url
from tests.pipeline.writes import FAILED, Batch, Row, batches, counts_of, drain, events, schema_of, waiting, work, write

MAIL = Queue("mail", shards=2)
NAMED = "queue string, shard int, dead_letter bigint, kind string"


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


def kill(url: str, queue: Queue, *ids: str) -> list[Row]:
    """Let jobs die, and give their dead letters as rows, by number."""

    async def send(store: Store) -> None:
        await store.jobs.enqueue([Job(queue=queue, id=id, kind="k") for id in ids])

    async def look(store: Store) -> list[DeadLetter]:
        return (await store.dead.list(queue, limit=1_000)).rows

    call_store(url, send)
    drain(url, queue, FAILED)
    dead_letters = sorted(call_store(url, look), key=lambda dead_letter: dead_letter.record.id)
    return [row_of(queue, dead_letter) for dead_letter in dead_letters]


def row_of(queue: Queue, dead_letter: DeadLetter) -> Row:
    return {
        "queue": queue.full_name,
        "shard": dead_letter.key.shard,
        "dead_letter": dead_letter.key.number,
        "kind": "k",
    }


def test_dead_letters_named_by_rows_are_replayed_and_other_columns_do_not_matter(url: str) -> None:
    rows = kill(url, MAIL, *(f"job-{number}" for number in range(6)))

    first = write(NAMED, rows[:3], [*rows[3:5], rows[0]], url=url, what="dead", delay="1h")
    again = write(NAMED, rows[:5], url=url, what="dead", run="again")

    assert counts_of(first) == {"replayed": 5, "folded": 1}
    assert counts_of(again) == {"not_found": 5}
    found = waiting(url, MAIL)
    assert [record.id for record in found] == [f"job-{number}" for number in range(5)]
    assert all(record.run_at_ms - record.enqueued_at_ms >= 3_600_000 for record in found)


def test_a_task_that_runs_again_counts_what_it_replayed_before_it_failed_and_replays_nothing_twice(url: str) -> None:
    rows = kill(url, MAIL, *(f"job-{number}" for number in range(6)))
    batch = Batch(NAMED, url=url, what="dead")
    batch.failed_task(rows[:4], part=2)
    drain(url, MAIL)

    batch.task(rows)
    written = batch.commit()

    assert counts_of(written) == {"replayed": 6}
    assert events(url, MAIL)["replayed"] == 6


def test_an_id_names_its_newest_dead_letter_and_an_older_one_is_not_replayed_by_a_task_that_runs_again(
    url: str,
) -> None:
    """The worker is faster than the task is run again: then the id is free, and an older dead letter lies there."""
    kill(url, MAIL, "twice")
    rows = [{"id": "twice"}, {"id": "once"}, {"id": "never"}]
    assert len(kill(url, MAIL, "twice", "once")) == 3
    batch = Batch("id string", url=url, what="dead", queue="mail")
    batch.failed_task(rows[:1])
    drained = drain(url, MAIL)

    batch.task([*rows, rows[0]])
    written = batch.commit()

    assert drained == 1
    assert counts_of(written) == {"replayed": 2, "folded": 1, "not_found": 1}
    assert events(url, MAIL)["replayed"] == 2


def test_a_dead_letter_whose_id_is_in_use_stays_and_rows_that_name_none_are_refused(url: str) -> None:
    [row] = kill(url, MAIL, "job")
    call_store(url, lambda store: store.jobs.enqueue([Job(queue=MAIL, id="job", kind="k")]))
    bad = [row | {"queue": "nowhere"}, row | {"shard": None}, row | {"dead_letter": 0}]

    written = write(NAMED, [row, *bad], url=url, what="dead", refusals="count")
    by_id = write("id string", [{"id": "job"}], url=url, what="dead", queue="mail", run="by id")

    assert counts_of(written) == {"in_use": 1, "refused": {"unknown_queue": 1, "bad_dead_letter": 2}}
    assert counts_of(by_id) == {"in_use": 1}


async def test_a_replay_that_is_not_answered_is_looked_up_before_it_is_asked_for_again() -> None:
    store, queue = FaultyStore(await open_store("memory://")), Queue("mail")
    for id in ("old", "old", "other"):
        await store.jobs.enqueue([Job(queue=queue, id=id, kind="k")])
        await work(store, queue, FAILED)
    schema = schema_of("id string")
    sink = DeadSink(WriteOptions(url="", what="dead", name="mail"), schema)
    store.lose("replay")

    tally = await sink.write(
        store, WriteRun("run", 0, this_host()), batches(schema, [{"id": "old"}, {"id": "other"}], 10)
    )

    assert (tally.ours, dict(tally.counts)) == (2, {})
    answers: list[Replayed] = list(await store.dead.replay(queue, ["other"]))
    assert [answer.status for answer in answers] == ["not_found"]
    assert len((await store.dead.list(queue)).rows) == 1
    await store.close()


@pytest.mark.parametrize(
    ("columns", "options", "sentence"),
    [
        (
            "kind string",
            {"queue": "mail"},
            r"replays need columns 'shard' and 'dead_letter', as read with what=dead, or 'id'",
        ),
        ("id string", {}, r"replays need a queue; give a column 'queue' or option queue"),
        ("id int", {"queue": "mail"}, r"column 'id' of a write with what=dead must be string; found int; cast it"),
        (
            "id string",
            {"queue": "mail"},
            r"there is no queue 'mail' of tenant 'default' whose dead letters could be replayed",
        ),
    ],
)
def test_a_frame_that_names_no_dead_letters_is_refused_with_a_sentence(
    tmp_path: Path, columns: str, options: dict[str, str], sentence: str
) -> None:
    url = fresh_url("sqlite", tmp_path)

    with pytest.raises(BadConfig, match=sentence):
        Batch(columns, url=url, what="dead", **options)


def test_spark_writes_the_dead_letters_that_it_has_read_back(spark: SparkSession, url: str) -> None:
    kill(url, MAIL, *(f"job-{number}" for number in range(20)))
    dead_letters = spark.read.format("headrace").options(url=url, what="dead", queue="mail").load()

    written = replay(dead_letters.where("id like 'job-1%'"), url, keepCounts=True)

    assert counts_of(written) == {"replayed": 11}
    assert len(waiting(url, MAIL)) == 11
