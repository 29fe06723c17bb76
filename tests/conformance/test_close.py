"""Close: frees a store, whose calls then fail."""

from collections.abc import Awaitable, Callable

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.errors import StoreUnavailable
from headrace.model.event import Span
from headrace.model.job import State
from headrace.model.names import Shard
from headrace.model.outcome import Done
from tests.support.play import Play


async def test_every_call_on_a_closed_store_is_unavailable(play: Play) -> None:
    """T23, Q14: operations after close say that the store was closed."""
    claim = await play.start("a")
    store, queue, shard = play.store, play.queue, Shard(play.queue, 0)
    request = ClaimRequest(queues=[queue], worker="worker-1", nonce=play.nonce())
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "enqueue": lambda: store.jobs.enqueue([play.job("b")]),
        "claim": lambda: store.jobs.claim(request),
        "extend": lambda: store.jobs.extend([claim.lease], lease_ms=1),
        "settle": lambda: store.jobs.settle([claim.settle(Done())]),
        "turn": lambda: store.jobs.turn([claim.settle(Done())], request),
        "repair": lambda: store.jobs.repair(queue),
        "cancel": lambda: store.jobs.cancel(queue, ["a"]),
        "remove": lambda: store.jobs.remove(queue, ["a"]),
        "dead.list": lambda: store.dead.list(queue),
        "replay": lambda: store.dead.replay(queue, ["a"]),
        "dead.purge": lambda: store.dead.purge(queue, []),
        "configure": lambda: store.queues.configure(queue, {"paused": True}),
        "configuration": lambda: store.queues.configuration(queue),
        "counts": lambda: store.queues.counts(queue),
        "names": lambda: store.queues.names("acme"),
        "overview": lambda: store.queues.overview("acme"),
        "tenants": store.queues.tenants,
        "purge": lambda: store.queues.purge(queue),
        "delete": lambda: store.queues.delete(queue),
        "find": lambda: store.reads.find(queue, ["a"]),
        "list": lambda: store.reads.list(queue, State.ACTIVE),
        "browse": lambda: store.reads.browse(queue, "next"),
        "finished_job": lambda: store.reads.finished_job(queue, "a"),
        "snapshot": lambda: store.reads.snapshot(shard),
        "workers": lambda: store.reads.workers(queue),
        "read": lambda: store.journal.read(shard, 0, 9),
        "bounds": lambda: store.journal.bounds(shard),
        "all_bounds": lambda: store.journal.all_bounds([shard]),
        "reached": lambda: store.journal.reached([Span(shard, 0, 9)], 0),
        "register": lambda: store.journal.register(shard, "history"),
        "advance": lambda: store.journal.advance(shard, "history", 0),
        "forget": lambda: store.journal.forget(shard, "history"),
        "consumers": lambda: store.journal.consumers(shard),
        "trim": lambda: store.journal.trim(shard),
        "wait": lambda: store.signals.wait([queue], 1),
        "ended": lambda: store.signals.ended(queue, ["a"], 1),
        "now_ms": store.now_ms,
        "health": store.health,
    }

    await store.close()

    for name, call in calls.items():
        with pytest.raises(StoreUnavailable) as refused:
            pytest.fail(f"{name} answered {await call()}")
        assert "closed" in str(refused.value), name


async def test_closing_twice_is_fine(play: Play) -> None:
    """T23: close is idempotent."""
    await play.enqueue("a")

    await play.store.close()
    await play.store.close()


async def test_a_store_that_was_never_used_can_be_closed(play: Play) -> None:
    """T23: and closed twice."""
    await play.store.close()
