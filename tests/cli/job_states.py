"""Lets jobs live for the tests of commands: each ends as its test needs it, with bare store calls."""

from collections.abc import Sequence
from itertools import count

from headrace.model.claim import Claim, ClaimRequest
from headrace.model.finished import DeadLetter
from headrace.model.job import Job, State
from headrace.model.limits import LEASE_MS_DEFAULT
from headrace.model.names import Queue
from headrace.model.outcome import Failed, JobError, Outcome
from headrace.model.results import Found
from headrace.stores.contract.store import Store

MAIL = Queue("mail")
BOOM = JobError("ValueError", "boom")
_NONCES = count(1)


def job(id: str, *, queue: Queue = MAIL, kind: str = "send", tag: str | None = None, payload: bytes = b"null") -> Job:
    """A job that is due at once."""
    return Job(queue=queue, id=id, kind=kind, tag=tag, payload=payload)


async def claim_all(
    store: Store, queue: Queue = MAIL, *, now_ms: int | None = None, lease_ms: int = LEASE_MS_DEFAULT
) -> list[Claim]:
    """All that is due, active from now on."""
    nonce = f"nonce-{next(_NONCES):04}"
    request = ClaimRequest(queues=[queue], worker="worker-1", nonce=nonce, limit=1_000, lease_ms=lease_ms)
    return (await store.jobs.claim(request, now_ms=now_ms)).items


async def finish_all(store: Store, jobs: Sequence[Job], outcome: Outcome, *, now_ms: int | None = None) -> None:
    """Send jobs, and end them all in the same way."""
    await store.jobs.enqueue(jobs, now_ms=now_ms)
    claims = await claim_all(store, jobs[0].queue, now_ms=now_ms)
    answers = await store.jobs.settle([claim.settle(outcome) for claim in claims], now_ms=now_ms)
    assert len(answers) == len(jobs)
    assert all(answer.ok for answer in answers)


async def kill_all(store: Store, jobs: Sequence[Job], error: JobError = BOOM, *, now_ms: int | None = None) -> None:
    """Send jobs, and let each die."""
    await finish_all(store, jobs, Failed(error), now_ms=now_ms)


async def dead_letters(store: Store, queue: Queue = MAIL) -> list[DeadLetter]:
    """All dead letters of a queue."""
    found: list[DeadLetter] = []
    cursor: str | None = None
    while True:
        page = await store.dead.list(queue, cursor=cursor, limit=1_000)
        found += page.rows
        if (cursor := page.cursor) is None:
            return found


async def list_state(store: Store, state: State, queue: Queue = MAIL) -> list[Found]:
    """All jobs of a queue in a state."""
    found: list[Found] = []
    cursor: str | None = None
    while True:
        page = await store.reads.list(queue, state, cursor=cursor, limit=1_000)
        found += page.rows
        if (cursor := page.cursor) is None:
            return found
