"""Journals of a queue where everything happens that can, by chance and always the same."""

import random
from collections.abc import Sequence

from headrace.model.claim import Claim, ClaimRequest
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.outcome import Cancelled, Done, Failed, JobError, Outcome, Released, Retried
from headrace.model.policy import Policy
from headrace.stores.contract.store import Store
from tests.pipeline.filled_journals import T0, Story

KINDS = ("fast", "slow", "odd")
_ERROR = JobError.of("Broken", "no luck")


def bustle(queue: Queue, steps: int, *, seed: int = 1, begin_ms: int = T0, every_ms: int = 1_000) -> Story:
    """So many steps, each at its own instant: enqueue, claim, settle or stall, and now and then something rarer."""

    async def story(store: Store) -> None:
        chance = random.Random(seed)
        claims: list[Claim] = []
        for step in range(steps):
            now_ms = begin_ms + step * every_ms
            ids = [f"job-{seed}-{chance.randrange(40)}" for _ in range(chance.randrange(1, 5))]
            await store.jobs.enqueue([_job(queue, id, chance, now_ms) for id in dict.fromkeys(ids)], now_ms=now_ms)
            await _work(store, queue, claims, chance, f"nonce-{seed}-{step}", now_ms)
            await _rare(store, queue, ids, chance, now_ms)

    return story


def _job(queue: Queue, id: str, chance: random.Random, now_ms: int) -> Job:
    expires_at_ms = now_ms + 700 if chance.random() < 0.1 else None
    policy = Policy(max_attempts=2, max_stalls=2, backoff_ms=500, backoff_ms_max=500, expires_at_ms=expires_at_ms)
    kind = KINDS[sum(map(ord, id)) % len(KINDS)]  # an id keeps its kind, so that the backlog by kind is exact
    return Job(queue=queue, id=id, kind=kind, policy=policy)


async def _work(
    store: Store, queue: Queue, claims: list[Claim], chance: random.Random, nonce: str, now_ms: int
) -> None:
    request = ClaimRequest(queues=[queue], worker="w", nonce=nonce, limit=4, lease_ms=5_000)
    claims += (await store.jobs.claim(request, now_ms=now_ms + 300)).items
    chance.shuffle(claims)
    settled = [claims.pop().settle(_outcome(chance), chance.randrange(2_000)) for _ in range(min(3, len(claims)))]
    if settled and chance.random() < 0.9:
        await store.jobs.settle(settled, now_ms=now_ms + 400)  # else they are dropped, and their leases run out


def _outcome(chance: random.Random) -> Outcome:
    choices: Sequence[Outcome] = (Done(), Done(), Done(), Retried(_ERROR), Failed(_ERROR), Released(100), Cancelled())
    return chance.choice(choices)


async def _rare(store: Store, queue: Queue, ids: Sequence[str], chance: random.Random, now_ms: int) -> None:
    rare = chance.randrange(12)
    if rare == 0:
        await store.jobs.cancel(queue, ids, running=True, now_ms=now_ms + 500)
    elif rare == 1:
        await store.jobs.remove(queue, ids[:1], now_ms=now_ms + 500)
    elif rare == 2:
        await store.queues.purge(queue, limit=1, now_ms=now_ms + 500)
    elif rare in (3, 4):
        dead_letters = (await store.dead.list(queue, now_ms=now_ms + 500)).rows
        await store.dead.replay(queue, [dead_letter.key for dead_letter in dead_letters[:1]], now_ms=now_ms + 500)
        await store.dead.purge(queue, [dead_letter.key for dead_letter in dead_letters[1:2]], now_ms=now_ms + 500)
