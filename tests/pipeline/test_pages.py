"""Promises of a task that reads journals: batches of a good size, a few pages ahead, and an end when it is told to."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.model.errors import StoreUnavailable
from headrace.model.event import Span
from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.pipeline.source.filters import Filters
from headrace.pipeline.source.journal.pages import BATCH_ROWS, PAGES_AHEAD, Fetching, read_spans
from headrace.pipeline.source.schema import JOURNAL
from headrace.stores.contract.store import Store
from tests.pipeline.filled_journals import fill, fill_store, keep
from tests.pipeline.shared_stores import SERVED, fresh_url
from tests.pipeline.store_scenarios import url_of
from tests.support.process import free_port, wait_until

QUEUE, SHARD = Queue("mail"), Shard(Queue("mail"))
SEQ_AND_ID = JOURNAL.pick(["seq", "id"])


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


@pytest.fixture
def file_url(tmp_path: Path) -> str:
    return url_of(tmp_path / "headrace.db")


def seqs(url: str, spans: Sequence[Span], *, fails_on_loss: bool = True) -> list[list[int]]:
    """The seqs that a task reads, batch by batch."""
    return [batch["seq"].to_pylist() for batch in read_spans(url, spans, SEQ_AND_ID, Filters(), fails_on_loss)]


def fetchers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "headrace-fetch"]


async def thirty_calls(store: Store) -> None:
    """30 calls of 1,000 jobs each."""
    for call in range(30):
        await store.jobs.enqueue([Job(queue=QUEUE, id=f"{call}-{number}", kind="k") for number in range(1_000)])


def test_large_journals_come_in_batches_of_a_good_size(url: str) -> None:
    fill_store(url, thirty_calls)

    found = seqs(url, [Span(SHARD, 0, 29_700)])

    assert [seq for batch in found for seq in batch] == list(range(1, 29_701))
    assert [len(batch) for batch in found] == [BATCH_ROWS, 9_700]


def test_small_ranges_share_a_batch(url: str) -> None:
    other = Queue("other", shards=3)
    fill_store(url, fill(QUEUE, 9), fill(other, 30))

    found = seqs(url, [Span(SHARD, 2, 4), Span(SHARD, 6, 9), *(Span(shard, 0, 3) for shard in other.all_shards())])

    assert found == [[3, 4, 7, 8, 9, *([1, 2, 3] * 3)]]


def test_events_that_retention_drops_under_a_reader_are_not_skipped_in_silence(url: str) -> None:
    fill_store(url, fill(QUEUE, 9), keep(SHARD, 3))

    with pytest.raises(
        StoreUnavailable, match=r"default/mail/0 after seq 2 were dropped by retention while they were read"
    ):
        seqs(url, [Span(SHARD, 2, 9)])


def test_dropped_events_are_skipped_and_counted_where_that_is_wanted(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_store(url, fill(QUEUE, 9), keep(SHARD, 3))

    found = seqs(url, [Span(SHARD, 2, 5), Span(SHARD, 6, 9)], fails_on_loss=False)

    assert found == [[8, 9]]
    assert capsys.readouterr().err == (
        "headrace: 4 events were dropped by retention before they were read, and are left out (failOnDataLoss=false)\n"
    )


def test_a_read_that_is_given_up_ends_its_thread(file_url: str) -> None:
    fill_store(file_url, thirty_calls)
    # The same events again and again: more pages than are fetched ahead.
    batches = read_spans(file_url, [Span(SHARD, 0, 20_000)] * 6, JOURNAL, Filters(), True)

    next(batches)
    begun = fetchers()
    batches.close()  # type: ignore[attr-defined]  # it is a generator, which Spark closes

    assert len(begun) == 1
    assert fetchers() == []


def test_a_thread_that_waits_for_space_ends_when_it_is_stopped(file_url: str) -> None:
    fill_store(file_url, fill(QUEUE, 9))
    fetching = Fetching(file_url, [Span(SHARD, seq, seq + 1) for seq in range(9)], True)
    next(fetching.pages())
    assert len(fetchers()) == 1

    fetching.stop()

    assert fetchers() == []


def test_a_read_to_the_end_leaves_no_thread_behind(url: str) -> None:
    fill_store(url, fill(QUEUE, 2))

    assert seqs(url, [Span(SHARD, 0, 2)]) == [[1, 2]]
    assert fetchers() == []


def test_only_a_few_pages_are_fetched_before_they_are_asked_for(file_url: str) -> None:
    fill_store(file_url, fill(QUEUE, 50))
    fetching = Fetching(file_url, [Span(SHARD, seq, seq + 1) for seq in range(50)], True)
    wait_until(lambda: fetching.pages_ready == PAGES_AHEAD, "the first pages")

    # Time enough for the others.
    fill_store(file_url, fill(QUEUE, 50, since=50))
    ahead = fetching.pages_ready
    found = list(fetching.pages())
    fetching.stop()

    assert ahead == PAGES_AHEAD
    assert len(found) == 50


def test_a_server_that_is_away_fails_the_read_with_one_sentence_and_leaves_no_thread() -> None:
    with pytest.raises(StoreUnavailable, match=r"redis at 127\.0\.0\.1:\d+ cannot be reached"):
        seqs(f"redis://127.0.0.1:{free_port()}/0", [Span(SHARD, 0, 2)])

    assert fetchers() == []


def test_nothing_to_read_opens_no_store() -> None:
    assert seqs("redis://nowhere.invalid/0", []) == []
