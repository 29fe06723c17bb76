"""A crash of a PostgreSQL server begins a new epoch, also for stores that had it open."""

from headrace.model.claim import ClaimRequest
from headrace.model.clock import SystemClock
from headrace.model.errors import StoreUnavailable
from headrace.model.job import new_job
from headrace.model.limits import FENCE_JUMP
from headrace.model.names import Queue, Shard
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.support.postgres_servers import PostgresServer

QUEUE = Queue("mail")


async def claim(store: Store, nonce: str) -> int:
    """The fence of the next job."""
    claims = await store.jobs.claim(ClaimRequest(queues=[QUEUE], worker="w", nonce=nonce))
    return claims.items[0].lease.fence


async def answers(store: Store) -> bool:
    """Whether the store answers."""
    try:
        await store.health()
    except StoreUnavailable:
        return False
    return True


async def test_a_clean_restart_is_the_same_epoch_and_a_crash_a_new_one() -> None:
    with PostgresServer().launch() as server:
        store = await open_store(f"{server.url}?profile=fast")
        await store.jobs.enqueue([new_job(QUEUE, "send", fresh_id=id) for id in ("a", "b")])
        first = await claim(store, "nonce-001")
        server.stop()
        server.start()
        while not await answers(store):
            pass
        after_stop = (await store.journal.bounds(Shard(QUEUE, 0))).epoch
        killed_at_ms = SystemClock().now_ms()
        server.kill()
        server.start()
        while not await answers(store):
            pass
        after_crash = (await store.journal.bounds(Shard(QUEUE, 0))).epoch
        await store.jobs.enqueue([new_job(QUEUE, "send", fresh_id="c")])
        second = await claim(store, "nonce-002")
        await store.close()

    assert after_stop == 1
    # At the clock or later: a life that begins at the same lost tail begins elsewhere.
    assert after_crash >= killed_at_ms
    assert second > max(first + FENCE_JUMP, killed_at_ms * 1_000)
