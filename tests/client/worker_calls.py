"""The calls of a worker: claims one job and settles it."""

from headrace.model.claim import Claim, ClaimRequest
from headrace.model.names import Queue
from headrace.model.outcome import Done, Outcome
from headrace.stores.contract.store import Store


async def claim(store: Store, queue: Queue, nonce: str = "nonce-01") -> Claim:
    """The next job of the queue, active from now on."""
    [claimed] = (await store.jobs.claim(ClaimRequest(queues=[queue], worker="w", nonce=nonce))).items
    return claimed


async def settle(store: Store, claimed: Claim, outcome: Outcome) -> None:
    """End the delivery."""
    [answer] = await store.jobs.settle([claimed.settle(outcome)])
    assert answer.ok


async def work(store: Store, queue: Queue, outcome: Outcome | None = None, nonce: str = "nonce-01") -> None:
    """Claim and end the next job of the queue."""
    await settle(store, await claim(store, queue, nonce), outcome or Done())
