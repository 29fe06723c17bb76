"""Promises of payloads that the journal carries: shown as they were, whatever became of their jobs, and free."""

import asyncio
from pathlib import Path

import pytest
from pyspark.sql.datasource import EqualTo, IsNotNull

from headrace.model.event import Entry
from headrace.model.limits import PAYLOAD_BYTES_MAX
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Done
from headrace.pipeline.source.filters import Filters
from headrace.pipeline.source.journal.pages import Converter, JournalPage
from headrace.pipeline.source.journal.payloads import PayloadLookup, events_for
from headrace.pipeline.source.schema import JOURNAL, JOURNAL_PAYLOADS, Table
from headrace.stores.open import open_store
from headrace.testing.faults import FaultyStore
from tests.pipeline.body_reads import event_bodies, happen, read
from tests.pipeline.player import playing
from tests.pipeline.shared_stores import SERVED, Batch, fresh_url
from tests.support.play import Play

TABLE = Table((*JOURNAL.columns, *JOURNAL_PAYLOADS.columns))
LINES = (
    b'{"event":"enqueued","id":"a","payload_bytes":2,"payload":"[]"}\n'
    b'{"event":"claimed","id":"a","fence":1}\n'
    b'{"event":"updated","id":"b","payload_bytes":0,"payload":""}\n'
)
BARE = b'{"event":"enqueued","id":"c","payload_bytes":2}\n'


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return fresh_url("sqlite", tmp_path)


def page(lines: bytes) -> JournalPage:
    count = lines.count(b"\n")
    return JournalPage(
        Shard(Queue("mail")), [Entry(epoch=1, last_seq=count, count=count, at_ms=1, worker="w", lines=lines)]
    )


def test_the_payloads_of_jobs_that_are_over_updated_or_used_again_are_all_there(url: str) -> None:
    """In a batch and in a stream; all of one size, and what came before the switch is looked up as ever."""

    async def story(play: Play) -> None:
        await play.enqueue("early", payload=b'{"n":0}', delay_ms=9)
        await play.enqueue("over", payload=b'{"n":0}')
        await play.settle(await play.claim_one())
        await play.configure(journal_payloads=True)
        for n in (1, 2):
            await play.settle(await play.start("again", payload=b'{"n":%d}' % n), Done(b"%d" % n))
        await play.enqueue("waits", payload=b'{"n":3}', delay_ms=9)
        await play.enqueue("waits", payload='{"ü":"\\n"}\n'.encode())
        await play.remove("waits")
        await play.die("dead", payload=b'{"n":4}')

    happen(url, story)

    rows = read(url)
    with playing(url=url, tenant="acme", payloads="true") as run:
        streamed = run.batch()

    assert streamed == rows
    assert tuple(rows[0]) == (*JOURNAL.names, "payload", "result")
    assert [each for each in event_bodies(rows) if each[0] not in ("claimed", "configured")] == [
        ("enqueued", "early", '{"n":0}', None),
        ("enqueued", "over", None, None),
        ("done", "over", None, None),
        ("enqueued", "again", '{"n":1}', None),
        ("done", "again", None, None),
        ("enqueued", "again", '{"n":2}', None),
        ("done", "again", None, "2"),
        ("enqueued", "waits", '{"n":3}', None),
        ("updated", "waits", '{"ü":"\\n"}\n', None),
        ("removed", "waits", None, None),
        ("enqueued", "dead", '{"n":4}', None),
        ("dead", "dead", '{"n":4}', None),
    ]


def test_payloads_that_are_carried_stay_out_unless_they_are_asked_for(file_url: str) -> None:
    async def story(play: Play) -> None:
        await play.configure(journal_payloads=True)
        await play.enqueue("a")

    happen(file_url, story)

    rows = Batch(url=file_url, tenant="acme").rows

    assert tuple(rows[0]) == JOURNAL.names
    assert [(row["event"], row["payload_bytes"]) for row in rows] == [("configured", None), ("enqueued", 7)]


def test_filters_and_columns_hold_for_payloads_that_are_carried(file_url: str) -> None:
    async def story(play: Play) -> None:
        await play.configure(journal_payloads=True)
        await play.enqueue("a", payload=b"1")
        await play.enqueue("a", payload=b"2")
        await play.enqueue("b", payload=b"2")

    happen(file_url, story)

    second = read(file_url, EqualTo(("payload",), "2"), columns="id,payload")
    updated = read(file_url, IsNotNull(("payload",)), EqualTo(("event",), "updated"), columns="payload,id")

    assert [row["id"] for row in second] == ["a", "b"]
    assert updated == [{"payload": "2", "id": "a"}]


def test_an_event_that_carries_its_payload_asks_nothing_of_the_store() -> None:
    async def opened() -> FaultyStore:
        return FaultyStore(await open_store("memory://"))

    with asyncio.Runner() as runner:
        store, converter = runner.run(opened()), Converter(events_for(TABLE))
        bodies = PayloadLookup(runner, store, {("default", "mail"): Queue("mail")}, TABLE, Filters())

        [batch] = bodies.batches(converter.record_batch([page(LINES)]))
        finds = store.calls["find"]
        list(bodies.batches(converter.record_batch([page(LINES + BARE)])))

    assert batch.column("payload").to_pylist() == ["[]", None, ""]
    assert (finds, store.calls["find"]) == (0, 1)


@pytest.mark.parametrize("options", [{}, {"payloads": "true"}], ids=["without", "with"])
def test_lines_larger_than_a_block_of_the_parser_are_read(file_url: str, options: dict[str, str]) -> None:
    """The largest payload with every character escaped, which begins at the end of a block."""
    large, small = "\0" * PAYLOAD_BYTES_MAX, "x" * 1_000

    async def story(play: Play) -> None:
        await play.configure(journal_payloads=True)
        await play.enqueue_all(
            *[play.job(f"{n}", payload=small.encode()) for n in range(900)], play.job("large", payload=large.encode())
        )
        await play.enqueue("last")

    happen(file_url, story)

    rows = Batch(url=file_url, tenant="acme", **options).rows[-3:]

    assert [row["id"] for row in rows] == ["899", "large", "last"]
    assert [row["payload_bytes"] for row in rows] == [1_000, PAYLOAD_BYTES_MAX, 7]
    assert not options or [row["payload"] for row in rows] == [small, large, '{"n":1}']
