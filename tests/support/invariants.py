"""The invariants of a store, checked while a random history is played on it."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from headrace.model.claim import Claim, Lease
from headrace.model.job import State
from headrace.model.names import Queue, Shard
from headrace.model.results import Turned
from headrace.stores.contract.store import Store
from tests.support.fold import Folded
from tests.support.histories import Actor, Draw, Op


async def check_history(store: Store, draw: Draw, operations: int, say: Callable[[str], None]) -> int:
    """Play operations and check every invariant after each; returns the number of claims."""
    actor = Actor(store, draw)
    leases = Leases()
    folds = {shard: ShardFold(shard) for queue in draw.queues for shard in queue.all_shards()}
    for _ in range(operations):
        op = draw.op(len(actor.claims))
        say(repr(op))
        # To look at everything takes most of the time, so it is done for calls that must change nothing only.
        before = await actor.everything(op.at_ms) if leases.refuse_all_of(op, actor) else None
        claims_before = len(actor.claims)
        answer = await actor.play(op)
        leases.follow(op, answer, actor, claims_before)
        if before is not None:
            assert await actor.everything(op.at_ms) == before, "a refused call changed something"
        _check_claims(op, actor.claims[claims_before:])
        # All at once: one after the other, the round trips to a server take longer than everything else.
        await asyncio.gather(*(fold.look(store) for fold in folds.values()))
        found = [sum((folds[shard].found for shard in queue.all_shards()), Counter[State]()) for queue in draw.queues]
        await asyncio.gather(
            *(_check_counts(store, queue, op.at_ms, each) for queue, each in zip(draw.queues, found, strict=True))
        )
    return len(actor.claims)


class Leases:
    """Knows from the answers alone which lease holds, and so which settlement and extension must be accepted."""

    def __init__(self) -> None:
        self._held: dict[tuple[Queue, str], Lease] = {}

    def refuse_all_of(self, op: Op, actor: Actor) -> bool:
        """Whether an operation names leases, and none of them holds."""
        match op.verb:
            case "settle":
                positions = [position for position, _ in op.arguments["settlements"]]
            case "extend":
                positions = op.arguments["claims"]
            case _:
                return False
        return not any(self._holds(actor.claims[position].lease, op.at_ms) for position in positions)

    def follow(self, op: Op, answer: object, actor: Actor, known: int) -> None:
        """Check the answer to an operation and learn from it."""
        if op.verb in ("settle", "turn"):
            settled = answer.settled if isinstance(answer, Turned) else answer
            for (position, _), each in zip(op.arguments["settlements"], _list(settled), strict=False):
                lease = actor.claims[position].lease
                self._check(lease, op.at_ms, each.ok)
                if each.ok:
                    del self._held[lease.queue, lease.id]
        elif op.verb == "extend":
            for position, each in zip(op.arguments["claims"], _list(answer), strict=False):
                lease = actor.claims[position].lease
                self._check(lease, op.at_ms, each.ok)
                if each.lease is not None:
                    self._held[lease.queue, lease.id] = each.lease
        elif op.verb == "remove":
            for id in op.arguments["ids"]:
                self._held.pop((actor.main, id), None)
        for claim in actor.claims[known:]:
            lease, before = claim.lease, self._held.get((claim.lease.queue, claim.lease.id))
            again = before is not None and before.token == lease.token
            assert before is None or again or before.expires_at_ms <= op.at_ms, "two valid leases at once"
            self._held[lease.queue, lease.id] = lease

    def _holds(self, lease: Lease, now_ms: int) -> bool:
        known = self._held.get((lease.queue, lease.id))
        return known is not None and known.token == lease.token and now_ms < known.expires_at_ms

    def _check(self, lease: Lease, now_ms: int, accepted: bool) -> None:
        holds = self._holds(lease, now_ms)
        assert accepted == holds, f"a lease that {'holds was refused' if holds else 'does not hold was accepted'}"


def _list(answers: object) -> list[Any]:
    return answers if isinstance(answers, list) else []


class ShardFold:
    """Follows one shard's journal and compares it with the shard after every operation."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._folded = Folded()
        self._seq = 0
        self._at_ms = 0
        self.found: Counter[State] = Counter()
        """How many rows were in which state when it last looked."""

    async def look(self, store: Store) -> None:
        """Read what is new, and fail if it contradicts itself or the shard."""
        for entry in await store.journal.read(self._shard, self._seq, 2**62):
            for event in entry.events(self._shard):
                assert event.seq == self._seq + 1, "the journal has a gap"
                assert event.at_ms >= self._at_ms, "the journal's time goes back"
                self._seq, self._at_ms = event.seq, event.at_ms
                self._folded.add(event)
        snapshot = await store.reads.snapshot(self._shard, now_ms=0)
        assert snapshot.as_of_seq == self._seq
        self._folded.check(snapshot.rows)
        self.found = Counter(row.state for row in snapshot.rows)
        live = Counter((row.id, row.state is State.ACTIVE) for row in snapshot.rows if row.state in _LIVE)
        assert all(count == 1 for count in live.values()), f"two records of one id: {live}"


_LIVE = (State.WAITING, State.BLOCKED, State.ACTIVE)


def _check_claims(op: Op, claims: list[Claim]) -> None:
    for claim in claims:
        assert claim.lease.expires_at_ms > op.at_ms, "a lease was handed out that does not hold"
        assert claim.record.run_at_ms <= op.at_ms, "a job was handed out before its time"
    ids = Counter((claim.lease.queue, claim.lease.id) for claim in claims)
    assert all(count == 1 for count in ids.values()), "one call handed an id out twice"


async def _check_counts(store: Store, queue: Queue, now_ms: int, found: Counter[State]) -> None:
    counts = await store.queues.counts(queue, now_ms=now_ms)
    assert (counts.waiting, counts.blocked, counts.active, counts.done, counts.cancelled, counts.dead) == tuple(
        found[state] for state in (State.WAITING, State.BLOCKED, State.ACTIVE, State.DONE, State.CANCELLED, State.DEAD)
    )
