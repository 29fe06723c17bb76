"""Promises of a fleet's worker, without Spark: it ends by itself or on request, and leaves no thread behind."""

import pickle
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.model.results import Counts
from headrace.pipeline.flows.fleet.app_bundle import pack
from headrace.pipeline.flows.fleet.executor import (
    LEFTOVER_EXIT,
    FleetSpec,
    Until,
    clear_stop_request,
    is_drained,
    leftover_threads,
    request_stop,
    run_worker,
)
from headrace.pipeline.source.store_access import this_host
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.pipeline.flows.fleet_runs import TIMEOUT_S, check_once, event_counts, journal, once_marked, send
from tests.pipeline.shared_stores import call_store, fresh_url

FLEET = "f1ee7"


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


def spec(url: str, until: Until | None = "drained", **config: Any) -> FleetSpec:
    _, bundle = pack("tests.pipeline.flows.fleet_app:app")
    return FleetSpec(FLEET, url, bundle, {"lease": "2s", **config}, until, "default", this_host())


def stop(url: str) -> None:
    call_store(url, lambda store: request_stop(store, "default", FLEET))


def test_a_worker_drains_its_queues_under_a_name_of_its_own(url: str) -> None:
    send(url, "double", {"number": 1}, {"number": 9})
    send(url, "double", {"number": 2}, delay="900ms")

    run_worker(spec(url), 3, 1, 2)

    assert check_once(url) == {"done": 2, "dead": 1}
    assert {each["worker"] for each in journal(url) if each["event"] == "done"} == {f"fleet-{FLEET}/3.1.2"}
    assert leftover_threads(0) == []


def test_a_worker_until_idle_leaves_scheduled_jobs(tmp_path: Path) -> None:
    url = fresh_url("sqlite", tmp_path)
    send(url, "double", {"number": 1})
    send(url, "double", {"number": 2}, delay="1h")

    run_worker(spec(url, "idle"), 0, 1, 0)

    assert (event_counts(url)["done"], event_counts(url)["claimed"]) == (1, 1)


def test_a_worker_that_is_asked_to_stop_releases_its_jobs_uncharged(url: str, tmp_path: Path) -> None:
    send(url, "hold", {"mark": str(tmp_path / "held")})

    with once_marked(tmp_path / "held", act=lambda _: stop(url)):
        run_worker(spec(url, None, grace=0), 0, 1, 0)
    run_worker(spec(url, None), 0, 2, 0)

    assert event_counts(url) == {"enqueued": 1, "claimed": 1, "released": 1}
    assert leftover_threads(0) == []
    call_store(url, lambda store: clear_stop_request(store, "default", FLEET))
    run_worker(spec(url), 0, 3, 0)
    assert check_once(url) == {"done": 1}


# Like Spark, reuses the process after its worker has ended.
REUSED = """
import pickle, sys
from headrace.pipeline.flows.fleet import executor
from headrace.worker import worker

worker.END_SECONDS = 0.2
executor.FLEET_LEFTOVER_MS = 200
executor.run_worker(pickle.loads(sys.stdin.buffer.read()), 0, 1, 0)
print("used again")
"""


@pytest.mark.parametrize("kind", ["hang", "hang_in_executor"])
def test_a_process_with_a_handler_that_cannot_be_stopped_ends_once_its_job_is_released(
    kind: str, tmp_path: Path
) -> None:
    url = fresh_url("sqlite", tmp_path)
    send(url, kind, {"mark": str(tmp_path / "held")})
    pickled = pickle.dumps(spec(url, None, grace=0))

    with once_marked(tmp_path / "held", act=lambda _: stop(url)):
        ran = subprocess.run(
            [sys.executable, "-c", REUSED], input=pickled, capture_output=True, timeout=TIMEOUT_S, check=False
        )

    assert (ran.returncode, ran.stdout.decode()) == (LEFTOVER_EXIT, "")
    assert "a worker of a fleet ends its process because it left behind" in ran.stderr.decode()
    assert event_counts(url) == {"enqueued": 1, "claimed": 1, "released": 1}


class HoppingStore:
    """A store in which a job moves to each queue right after that queue was event_counts."""

    def __init__(self, store: Store, *queues: Queue) -> None:
        self._store = store
        self._queues = queues
        self.queues = self
        self.journal = store.journal

    async def counts(self, queue: Queue) -> Counts:
        found = await self._store.queues.counts(queue)
        await self._store.jobs.enqueue([Job(queue=queue, id=secrets.token_hex(8), kind="hop")])
        for other in self._queues:
            if other != queue:
                await self.drain(other)
        return found

    async def drain(self, queue: Queue) -> None:
        """Finish the jobs of a queue."""
        nonce = secrets.token_hex(8)
        claimed = await self._store.jobs.claim(ClaimRequest(queues=[queue], worker="w", nonce=nonce, lease_ms=60_000))
        await self._store.jobs.settle([claim.settle(Done(), 1) for claim in claimed.items])


async def test_queues_between_which_a_job_hops_are_not_drained_before_it_ends(tmp_path: Path) -> None:
    """The job is always in one of the queues, and never in the one that is event_counts."""
    left, right = Queue("left"), Queue("right")
    store = await open_store("memory://")
    hopping: Any = HoppingStore(store, left, right)
    await store.jobs.enqueue([Job(queue=right, id="a", kind="hop")])

    before = await is_drained(hopping, [left, right])
    await hopping.drain(left)
    await hopping.drain(right)
    after = await is_drained(store, [left, right])

    assert (before, after) == (False, True)
