"""Gauges of queues: right by state, cheap however often they are scraped, and kept while the store is away."""

import asyncio

import pytest

from headrace.client import queue_metrics
from headrace.client.queue_metrics import QueueMetrics
from headrace.model.clock import ManualClock
from headrace.model.errors import BadConfig, Refused
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from headrace.stores.memory.store import MemoryStore
from headrace.testing.faults import FaultyStore
from tests.worker.support import job

NOW_MS = 1_900_000_000_000
MAIL, REPORTS, OTHER = Queue("mail", "acme", 2), Queue("reports", "acme"), Queue("mail", "beta")


@pytest.fixture
def store(runner: asyncio.Runner) -> Store:
    """A store with jobs in two tenants."""

    async def filled() -> Store:
        clock = ManualClock(NOW_MS)
        store = MemoryStore(clock)
        later = Job(queue=MAIL, id="later", kind="work", run_at_ms=NOW_MS + 600_000)
        await store.jobs.enqueue([job("due", queue=MAIL), later, job("a", queue=REPORTS), job("b", queue=OTHER)])
        await store.queues.configure(REPORTS, {"paused": True})
        clock.advance(90_000)
        return store

    return runner.run(filled())


async def read(store: Store, *patterns: str, tenant: str = "acme") -> dict[tuple[str, ...], float]:
    """The values by name and labels."""
    metrics = QueueMetrics(store, patterns, tenant)
    await metrics.refresh()
    return {(gauge.name, *labels): value for gauge in metrics.gauges() for labels, value in gauge.values}


async def test_gauges_show_jobs_by_state_the_oldest_due_job_and_pauses(store: Store) -> None:
    found = await read(store, "mail", "reports")

    assert found["headrace_queue_jobs", "acme", "mail", "ready"] == 1
    assert found["headrace_queue_jobs", "acme", "mail", "later"] == 1
    assert found["headrace_queue_oldest_due_seconds", "acme", "mail"] == 90
    assert found["headrace_queue_paused", "acme", "mail"] == 0
    assert found["headrace_queue_paused", "acme", "reports"] == 1
    assert found[("headrace_store_up",)] == 1


async def test_patterns_name_queues_prefixes_and_other_tenants(store: Store) -> None:
    def queues(found: dict[tuple[str, ...], float]) -> set[tuple[str, ...]]:
        return {key[1:] for key in found if key[0] == "headrace_queue_paused"}

    assert queues(await read(store, "rep*")) == {("acme", "reports")}
    assert queues(await read(store, "*", "beta/mail")) == {("acme", "mail"), ("acme", "reports"), ("beta", "mail")}
    assert queues(await read(store, "beta/*", tenant="beta")) == {("beta", "mail")}
    assert queues(await read(store, "unknown")) == set()


async def test_scrapes_within_a_second_read_the_store_once(store: Store) -> None:
    counting = FaultyStore(store)
    metrics = QueueMetrics(counting, ["mail", "*"], "acme")

    await asyncio.gather(*(metrics.refresh() for _ in range(50)))

    assert counting.calls["queues.overview"] == 2


async def test_the_last_counts_stay_while_the_store_is_away(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_metrics, "QUEUE_METRICS_AGE_MS", 0)
    faulty = FaultyStore(store)
    metrics = QueueMetrics(faulty, ["mail"], "acme")
    await metrics.refresh()
    faulty.is_down = True
    await metrics.refresh()

    found = {(gauge.name, *labels): value for gauge in metrics.gauges() for labels, value in gauge.values}

    assert found[("headrace_store_up",)] == 0
    assert found["headrace_queue_jobs", "acme", "mail", "ready"] == 1


@pytest.mark.parametrize("pattern", ["", "acme/", "a b", "Acme/mail", "mail**", "*mail", "a/b/c", "../x"])
def test_a_pattern_that_names_no_queue_is_refused(store: Store, pattern: str) -> None:
    with pytest.raises((BadConfig, Refused)):
        QueueMetrics(store, [pattern], "acme")
