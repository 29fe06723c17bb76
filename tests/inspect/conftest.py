"""Every store with jobs in all states, for the tests of what `headrace.inspect` finds there."""

import asyncio
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Done, Failed, JobError
from headrace.model.policy import Policy
from headrace.stores.contract.store import Store
from tests.support.stores import STORES

MAIL = Queue("mail", "acme", 3)
WEB = Queue("web", "acme")
_NONCES = count(1)
URL_ERROR = "cannot reach redis://me:hunter2@cache:6379"


@pytest.fixture(params=[*STORES])
def store(request: pytest.FixtureRequest, tmp_path: Path, runner: asyncio.Runner) -> Iterator[Store]:
    """A store whose tenant acme has a job in each state on `mail`, and one that waits on `web`."""
    opened = STORES[request.param](tmp_path)
    store = runner.run(opened.__aenter__())
    runner.run(fill(store))
    yield store
    runner.run(opened.__aexit__(None, None, None))


async def fill(store: Store) -> None:
    """One job in each state, the dead one with two dead letters."""
    await enqueue(store, "done", tag="red", policy=Policy(result_ttl_ms=60_000))
    await settle(store, Done(b'{"sent":1}'))
    for error in (JobError("OSError", URL_ERROR), JobError("ValueError", "bad field")):
        await enqueue(store, "dead", kind="resize", payload=b'{"width":640}')
        await settle(store, Failed(error))
    await enqueue(store, "cancelled")
    await store.jobs.cancel(MAIL, ["cancelled"])
    await enqueue(store, "active")
    await store.jobs.claim(request_of(MAIL))
    await enqueue(store, "active", kind="again", payload=b"\xff\x00")
    await enqueue(store, "later", delay_ms=60_030_000)
    await store.jobs.enqueue([Job(queue=WEB, id="page", kind="crawl")])


async def enqueue(store: Store, id: str, *, kind: str = "send", payload: bytes = b"null", **options: object) -> None:
    """Enqueue a job on `mail`."""
    await store.jobs.enqueue([Job(queue=MAIL, id=id, kind=kind, payload=payload, **options)])  # type: ignore[arg-type]


async def settle(store: Store, outcome: Done | Failed, queue: Queue = MAIL) -> None:
    """Claim all due jobs of a queue, and settle them."""
    claims = (await store.jobs.claim(request_of(queue))).items
    await store.jobs.settle([each.settle(outcome, run_ms=20) for each in claims])


def request_of(queue: Queue) -> ClaimRequest:
    """A claim with a nonce of its own."""
    nonce = f"nonce-{next(_NONCES):04}"
    return ClaimRequest(queues=[queue], worker="worker-1", nonce=nonce, limit=100, lease_ms=600_000)
