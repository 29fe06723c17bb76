"""Promises of payloads and results beside the journal: what the store still holds of an event, and never another's."""

from pathlib import Path

import pytest
from pyspark.sql.datasource import EqualTo, IsNotNull

from headrace.model.errors import BadConfig
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, Retried
from headrace.pipeline.source.schema import JOURNAL
from tests.pipeline.body_reads import event_bodies, happen, read
from tests.pipeline.player import playing
from tests.pipeline.shared_stores import SERVED, Batch, call_store, fresh_url
from tests.support.play import BOOM, Play


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return fresh_url("sqlite", tmp_path)


def test_every_event_has_the_payload_or_result_that_the_store_still_holds(url: str) -> None:
    """In a batch and in a stream: of a job that waits, one that runs with a blocked job, a dead letter and a finished
    job."""

    async def story(play: Play) -> None:
        await play.settle(await play.start("done", payload=b'{"n":1}'), Done(b'{"sum":7}'))
        await play.die("dead", payload=b'{"n":2}')
        await play.start("runs", payload=b'{"n":3}')
        await play.enqueue("runs", payload=b'{"n":4}')
        await play.enqueue("waits", payload=b'{"n":5}')
        await play.enqueue("waits", payload=b'{"n":6}')
        await play.enqueue("bytes", payload=b"\xff\xfe")

    happen(url, story)

    rows = read(url)
    with playing(url=url, tenant="acme", payloads="true") as run:
        streamed = run.batch()

    assert streamed == rows
    assert tuple(rows[0]) == (*JOURNAL.names, "payload", "result")
    assert event_bodies(rows) == [
        ("enqueued", "done", None, None),
        ("claimed", "done", None, None),
        ("done", "done", None, '{"sum":7}'),
        ("enqueued", "dead", '{"n":2}', None),
        ("claimed", "dead", None, None),
        ("dead", "dead", '{"n":2}', None),
        ("enqueued", "runs", '{"n":3}', None),
        ("claimed", "runs", None, None),
        ("blocked", "runs", '{"n":4}', None),
        ("enqueued", "waits", None, None),
        ("updated", "waits", '{"n":6}', None),
        ("enqueued", "bytes", None, None),
    ]


def test_another_life_of_an_id_does_not_lend_its_payload_or_result(url: str) -> None:
    """All payloads are of one size and all events of one millisecond."""

    async def story(play: Play) -> None:
        for n in (1, 2):
            await play.settle(await play.start("again", payload=b'{"n":%d}' % n), Done(b"%d" % n))
        await play.die("dies", payload=b'{"n":3}')
        await play.die("dies", payload=b'{"n":4}')
        await play.enqueue("dies", payload=b'{"n":5}')
        await play.enqueue("gone", payload=b'{"n":6}')
        await play.remove("gone")
        await play.enqueue("gone", payload=b'{"n":7}')

    happen(url, story)

    found = [each for each in event_bodies(read(url)) if each[0] != "claimed"]

    assert found == [
        ("enqueued", "again", None, None),
        ("done", "again", None, None),
        ("enqueued", "again", None, None),
        ("done", "again", None, "2"),
        ("enqueued", "dies", '{"n":3}', None),
        ("dead", "dies", '{"n":3}', None),
        ("enqueued", "dies", '{"n":4}', None),
        ("dead", "dies", '{"n":4}', None),
        ("enqueued", "dies", '{"n":5}', None),
        ("enqueued", "gone", None, None),
        ("removed", "gone", None, None),
        ("enqueued", "gone", '{"n":7}', None),
    ]


def test_a_replayed_dead_letter_a_freed_blocked_job_and_a_merged_one_are_followed(url: str) -> None:
    async def story(play: Play) -> None:
        key = await play.die("back", payload=b'{"n":1}')
        await play.replay(key)
        await play.settle(await play.claim_one(), Failed(BOOM))
        claim = await play.start("freed", payload=b'{"n":2}')
        await play.enqueue("freed", payload=b'{"n":3}')
        await play.cancel("freed")
        await play.enqueue("freed", payload=b'{"n":4}')
        await play.settle(claim, Done())
        await play.cancel("freed")
        claim = await play.start("merged", payload=b'{"n":5}')
        await play.enqueue("merged", payload=b'{"n":6}')
        await play.settle(claim, Retried(BOOM))
        claim = await play.start("freed", payload=b'{"n":7}')
        await play.enqueue("freed", payload=b'{"n":8}')
        await play.settle(claim, Done())

    happen(url, story)

    found = [
        (event, payload)
        for event, _, payload, _ in event_bodies(read(url))
        if event not in ("claimed", "done", "retried")
    ]

    assert found == [
        ("enqueued", '{"n":1}'),
        ("dead", '{"n":1}'),
        ("replayed", '{"n":1}'),
        ("dead", '{"n":1}'),
        ("enqueued", None),
        ("blocked", None),
        ("cancelled", None),
        ("blocked", None),
        ("unblocked", None),
        ("cancelled", None),
        ("enqueued", None),
        ("blocked", None),
        ("merged", '{"n":6}'),
        ("enqueued", None),
        ("blocked", '{"n":8}'),
        ("unblocked", '{"n":8}'),
    ]


def test_what_came_after_the_events_that_are_read_is_not_taken_for_theirs(file_url: str) -> None:
    """A job that began later, an update of another size, and the finished job of a later life."""

    async def story(play: Play) -> None:
        await play.settle(await play.start("twice", payload=b'{"n":1}'), Done(b"1"))
        await play.enqueue("longer", payload=b'{"n":1}', delay_ms=9)
        await play.enqueue("again", payload=b'{"n":1}')
        play.advance(1)
        await play.settle(await play.claim_one())
        await play.settle(await play.start("twice", payload=b'{"n":2}'), Done(b"2"))
        await play.enqueue("longer", payload=b'{"n":10}')
        await play.enqueue("again", payload=b'{"n":2}')

    happen(file_url, story)

    with playing(url=file_url, tenant="acme", payloads="true", maxEventsPerTrigger="5") as run:
        first, *rest = [event_bodies(rows) for rows in run.rest()]

    assert [(event, id) for event, id, payload, result in first if payload is None and result is None] == [
        ("enqueued", "twice"),
        ("claimed", "twice"),
        ("done", "twice"),
        ("enqueued", "longer"),
        ("enqueued", "again"),
    ]
    assert [each for rows in rest for each in rows if each[2] or each[3]] == [
        ("done", "twice", None, "2"),
        ("updated", "longer", '{"n":10}', None),
        ("enqueued", "again", '{"n":2}', None),
    ]


def test_filters_and_columns_hold_for_payloads_too(file_url: str) -> None:
    async def story(play: Play) -> None:
        await play.enqueue("a", payload=b'{"n":1}')
        await play.enqueue("a", payload=b'{"n":2}')
        await play.enqueue("b", payload=b'{"n":3}')

    happen(file_url, story)
    happen(file_url, story, name="news")

    first = read(file_url, EqualTo(("event",), "enqueued"), queue="mail", columns="payload,id")
    filtered_rows = read(file_url, IsNotNull(("payload",)), EqualTo(("id",), "a"), columns="queue,payload")

    # The update is not among the rows that are asked for, and has replaced the payload all the same.
    assert first == [{"payload": None, "id": "a"}, {"payload": '{"n":3}', "id": "b"}]
    assert filtered_rows == [{"queue": "mail", "payload": '{"n":2}'}, {"queue": "news", "payload": '{"n":2}'}]


def test_more_jobs_than_one_call_may_name_and_payloads_larger_than_a_part_are_all_found(file_url: str) -> None:
    large = b'"' + b"x" * 200_000 + b'"'

    async def story(play: Play) -> None:
        for first in range(0, 2 * BATCH_MAX, BATCH_MAX):
            await play.enqueue_all(*[play.job(f"{n}", payload=b"%d" % n) for n in range(first, first + BATCH_MAX)])
        await play.enqueue_all(*[play.job(f"large-{n}", payload=large) for n in range(60)])

    happen(file_url, story)

    batch = Batch(url=file_url, tenant="acme", payloads="true", columns="id,payload")

    assert len(batch.rows) == 2 * BATCH_MAX + 60
    assert all(row["payload"] == row["id"] for row in batch.rows[: 2 * BATCH_MAX])
    assert all(row["payload"] == large.decode() for row in batch.rows[2 * BATCH_MAX :])
    assert max(batch.sizes[1:], default=0) < 60, "large payloads come in several batches"


def test_a_journal_has_no_payloads_unless_they_are_asked_for(file_url: str) -> None:
    happen(file_url, lambda play: play.enqueue("a"))

    rows = Batch(url=file_url, tenant="acme").rows

    assert tuple(rows[0]) == JOURNAL.names
    with pytest.raises(BadConfig, match="option columns names 'payload', which does not exist"):
        Batch(url=file_url, tenant="acme", columns="payload")
    with pytest.raises(BadConfig, match="has no option 'payloads' to read results"):
        Batch(url=file_url, tenant="acme", what="results", payloads="true")


def test_a_queue_that_was_deleted_in_the_meantime_leaves_its_events_bare(file_url: str) -> None:
    happen(file_url, lambda play: play.enqueue("kept"), name="news")
    happen(file_url, lambda play: play.enqueue("a"))

    with playing(url=file_url, tenant="acme", payloads="true", failOnDataLoss="false") as run:
        first = run.batch()
        happen(file_url, lambda play: play.remove("a"))
        call_store(file_url, lambda store: store.queues.delete(Queue("mail", "acme")))
        happen(file_url, lambda play: play.enqueue("late"), name="news")
        second = run.batch()

    assert [each[1:3] for each in event_bodies(first or [])] == [("a", '{"n":1}'), ("kept", '{"n":1}')]
    assert [each[1:3] for each in event_bodies(second or [])] == [("late", '{"n":1}')]
