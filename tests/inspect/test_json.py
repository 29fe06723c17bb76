"""The JSON of every result is described by its struct, so a service can publish its schema and a client can read it."""

import msgspec
import pytest

from headrace.inspect.dead_letters import (
    DeadLetterPage,
    DeadLetterQuery,
    DeadLetterView,
    list_dead_letters,
    show_dead_letter,
)
from headrace.inspect.details import JobDetails, JobView, UnknownJob, show_job
from headrace.inspect.feeds import FeedList, list_feeds
from headrace.inspect.jobs import JobPage, list_jobs
from headrace.inspect.queues import QueueList, QueueView, list_queues, show_queue
from headrace.inspect.results import ResultView, read_result
from headrace.inspect.search import JobFilter, SearchResult, search_jobs
from headrace.inspect.workers import WorkerList, list_workers
from headrace.model.feed import FeedName
from headrace.stores.contract.store import Store

RESULTS = (
    JobPage,
    SearchResult,
    JobView,
    UnknownJob,
    ResultView,
    DeadLetterPage,
    DeadLetterView,
    QueueList,
    QueueView,
    WorkerList,
    FeedList,
)


async def results_of(store: Store) -> list[msgspec.Struct]:
    """Some results of each kind."""
    await store.feeds.create(FeedName("news", "acme"), instance="test")
    results: list[msgspec.Struct] = [
        await list_jobs(store, "acme", None, None, cursor=None, limit=5),
        await search_jobs(store, "acme", None, None, JobFilter(), limit=5, scan_max=5),
        await list_dead_letters(store, "acme", None, DeadLetterQuery(), cursor=None, limit=1),
        await list_queues(store, None),
        await show_queue(store, "acme", "mail"),
        await list_workers(store, "acme", None),
        await list_feeds(store, "acme"),
    ]
    for id in ("active", "done", "dead", "nobody"):
        job = await show_job(store, "acme", None, id, scan_max=100)
        results += [job.view() if isinstance(job, JobDetails) else job]
        results += [(await read_result(store, "acme", None, id, wait_ms=0)).view()]
    dead_letter = await show_dead_letter(store, "acme", None, "dead", scan_max=100)
    assert dead_letter is not None
    return [*results, dead_letter.view(payload=False)]


async def test_the_json_of_every_result_is_read_back_as_its_struct(store: Store) -> None:
    results = await results_of(store)

    documents = [msgspec.json.encode(result) for result in results]

    assert {type(result) for result in results} == set(RESULTS)
    for result, document in zip(results, documents, strict=True):
        assert msgspec.json.encode(msgspec.json.decode(document, type=type(result))) == document


@pytest.mark.parametrize("result", RESULTS)
def test_every_result_has_a_schema(result: type[msgspec.Struct]) -> None:
    schema = msgspec.json.schema(result)

    assert set(schema["$defs"][result.__name__]["properties"]) == set(result.__struct_encode_fields__)
