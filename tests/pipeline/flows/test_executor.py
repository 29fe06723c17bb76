"""Promises of a slot, without Spark: a worker as any other, that ends by itself, when asked, and with nothing left."""

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
from headrace.pipeline.flows.fleet.control import ask_to_stop, forget
from headrace.pipeline.flows.fleet.drained import is_drained
from headrace.pipeline.flows.fleet.executor import LEFTOVER_EXIT, leftovers, stand
from headrace.pipeline.flows.fleet.orders import Orders, Until
from headrace.pipeline.source.store_access import this_host
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.pipeline.flows.fleet_runs import PATIENCE_S, check_once, counted, journal, send, upon
from tests.pipeline.served import ask, fresh_url

FLEET = "f1ee7"


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


def orders(url: str, until: Until | None = "drained", **config: Any) -> Orders:
    _, cargo = pack("tests.pipeline.flows.fleet_app:app")
    return Orders(FLEET, url, cargo, {"lease": "2s", **config}, until, "default", this_host())


def stop(url: str) -> None:
    ask(url, lambda store: ask_to_stop(store, "default", FLEET))


def test_a_slot_works_until_nothing_is_left_now_or_later_under_a_name_of_its_own(url: str) -> None:
    send(url, "double", {"number": 1}, {"number": 9})
    send(url, "double", {"number": 2}, delay="900ms")

    stand(orders(url), 3, 1, 2)

    assert check_once(url) == {"done": 2, "dead": 1}
    assert {each["worker"] for each in journal(url) if each["event"] == "done"} == {f"fleet-{FLEET}/3.1.2"}
    assert leftovers(0) == []


def test_a_slot_that_is_to_work_until_it_is_idle_leaves_what_comes_later(tmp_path: Path) -> None:
    url = fresh_url("sqlite", tmp_path)
    send(url, "double", {"number": 1})
    send(url, "double", {"number": 2}, delay="1h")

    stand(orders(url, "idle"), 0, 1, 0)

    assert (counted(url)["done"], counted(url)["claimed"]) == (1, 1)


def test_a_slot_that_is_asked_to_stop_gives_back_what_it_holds_uncharged(url: str, tmp_path: Path) -> None:
    send(url, "hold", {"mark": str(tmp_path / "held")})

    with upon(tmp_path / "held", act=lambda _: stop(url)):
        stand(orders(url, None, grace=0), 0, 1, 0)
    stand(orders(url, None), 0, 2, 0)

    assert counted(url) == {"enqueued": 1, "claimed": 1, "released": 1}
    assert leftovers(0) == []
    ask(url, lambda store: forget(store, "default", FLEET))
    stand(orders(url), 0, 3, 0)
    assert check_once(url) == {"done": 1}


# A process as Spark's own: it would be used again when the worker has ended.
REUSED = """
import pickle, sys
from headrace.pipeline.flows.fleet import executor as slot
from headrace.worker import worker

worker.END_SECONDS = 0.2
slot.FLEET_LEFTOVER_MS = 200
slot.stand(pickle.loads(sys.stdin.buffer.read()), 0, 1, 0)
print("used again")
"""


@pytest.mark.parametrize("kind", ["wedge", "wedge_the_executor"])
def test_a_process_with_a_handler_that_cannot_be_stopped_ends_once_its_job_is_given_back(
    kind: str, tmp_path: Path
) -> None:
    url = fresh_url("sqlite", tmp_path)
    send(url, kind, {"mark": str(tmp_path / "held")})
    told = pickle.dumps(orders(url, None, grace=0))

    with upon(tmp_path / "held", act=lambda _: stop(url)):
        ran = subprocess.run(
            [sys.executable, "-c", REUSED], input=told, capture_output=True, timeout=PATIENCE_S, check=False
        )

    assert (ran.returncode, ran.stdout.decode()) == (LEFTOVER_EXIT, "")
    assert "a worker of a fleet ends its process, since it left behind" in ran.stderr.decode()
    assert counted(url) == {"enqueued": 1, "claimed": 1, "released": 1}


class Hopping:
    """A store in which a job moves to the queue that was looked at, as soon as that was looked at."""

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
                await self.rest(other)
        return found

    async def rest(self, queue: Queue) -> None:
        """End what is in a queue."""
        nonce = secrets.token_hex(8)
        claimed = await self._store.jobs.claim(ClaimRequest(queues=[queue], worker="w", nonce=nonce, lease_ms=60_000))
        await self._store.jobs.settle([claim.settle(Done(), 1) for claim in claimed.items])


async def test_queues_between_which_a_job_hops_are_not_drained_before_it_rests(tmp_path: Path) -> None:
    """It is always in one of them, and never in the one that is looked at."""
    left, right = Queue("left"), Queue("right")
    store = await open_store("memory://")
    hopping: Any = Hopping(store, left, right)
    await store.jobs.enqueue([Job(queue=right, id="a", kind="hop")])

    hops = await is_drained(hopping, [left, right])
    await hopping.rest(left)
    await hopping.rest(right)
    rests = await is_drained(store, [left, right])

    assert (hops, rests) == (False, True)
