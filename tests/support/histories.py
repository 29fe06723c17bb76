"""Random histories: one operation after the other, drawn from a random source and played on any store."""

from random import Random
from typing import Any

import msgspec

from headrace.model.claim import Claim, ClaimRequest, Settlement
from headrace.model.errors import Refused
from headrace.model.job import Job, State, UpdateRunAt, new_job
from headrace.model.letter import LetterKey
from headrace.model.names import Queue
from headrace.model.outcome import Cancelled, Done, Fail, JobError, Outcome, Release, Retry
from headrace.model.policy import NO_POLICY, Policy
from headrace.stores.contract.store import Store

START_MS = 1_700_000_000_000
IDS = ("a", "b", "c:1", "d#2", "é", "f")
KEYS = (None, None, None, "k1", "k2")


class Op(msgspec.Struct, frozen=True):
    """One operation with all its arguments; `claims` are positions in the list of all claims so far."""

    verb: str
    at_ms: int
    arguments: dict[str, Any]


class Draw:
    """Draws operations that tend to meet one another: few ids, short leases, small budgets."""

    def __init__(self, random: Random, shards: int, *, trims: bool = True) -> None:
        self._random = random
        self.main = Queue("main", "acme", shards)
        self.queues = (self.main, Queue("main", "other", shards), self.main.companion)
        self._now_ms = START_MS
        self._trims = trims
        self._nonces = 0

    def _pick(self, *choices: Any) -> Any:
        return choices[self._random.randrange(len(choices))]

    def _maybe(self, *choices: Any) -> Any:
        return self._pick(None, None, *choices)

    def op(self, claims: int) -> Op:
        """The next operation, when this many claims were made so far."""
        self._now_ms += self._pick(0, 0, 1, 5, 5, 20, 100, 1_000)
        verb = self._pick(*VERBS)
        arguments = getattr(self, f"_{verb}")(claims)
        return Op(verb, self._now_ms, arguments)

    def _enqueue(self, _: int) -> dict[str, Any]:
        return {"jobs": [self._job() for _ in range(self._pick(1, 1, 2, 3))]}

    def _job(self) -> Job:
        policy = NO_POLICY
        if self._pick(True, False):
            policy = Policy(
                priority=self._maybe(0, 5, 9),
                max_attempts=self._maybe(1, 2, 3),
                max_stalls=self._maybe(1, 2),
                backoff_ms=self._maybe(0, 10),
                backoff_ms_max=self._maybe(50),
                timeout_ms=self._maybe(100),
                result_ttl_ms=self._maybe(0, 50, 5_000),
                expires_at_ms=self._maybe(self._now_ms, self._now_ms + 10, self._now_ms + 1_000),
            )
        run_at_ms = self._maybe(self._now_ms - 5, self._now_ms, self._now_ms + 1, self._now_ms + 30)
        key = self._pick(*KEYS)
        return new_job(
            self._pick(self.main, self.main, self.main, self.queues[1]),
            self._pick("send", "resize"),
            self._pick(b"null", b'{"n":1}', b"\xff\x00"),
            fresh_id="fresh",
            id=None if key is not None and self._pick(True, False) else self._pick(*IDS),
            run_at_ms=run_at_ms,
            delay_ms=None if run_at_ms is not None else self._maybe(0, 10, 200),
            policy=policy,
            tag=self._maybe("red"),
            headers=self._pick({}, {}, {"trace": "1"}),
            idempotency_key=key,
            idempotency_ttl_ms=self._maybe(20, 500),
            update_payload=self._pick(True, True, False),
            update_policy=self._pick(True, True, False),
            update_run_at=self._maybe(*UpdateRunAt),
            reset_counts=self._pick(False, False, True),
        )

    def _request(self) -> ClaimRequest:
        self._nonces += self._pick(1, 1, 1, 0)
        queues = self._pick([self.main], [self.main], [self.main.companion, self.main], [self.queues[1], self.main])
        return ClaimRequest(
            queues=queues,
            worker=self._pick("w1", "w2"),
            nonce=f"nonce-{self._nonces:06}",
            limit=self._pick(1, 2, 5),
            lease_ms=self._pick(1, 10, 200, 5_000),
        )

    def _claim(self, _: int) -> dict[str, Any]:
        return {"request": self._request()}

    def _outcome(self) -> Outcome:
        error = JobError(self._pick("Boom", "Späť"), "x" * self._pick(0, 10))
        return self._pick(  # type: ignore[no-any-return]
            Done(),
            Done(b"42"),
            Retry(error),
            Retry(error, delay_ms=0),
            Retry(error, jitter_ppm=self._pick(0, 333_333)),
            Fail(error),
            Release(),
            Release(10),
            Cancelled(),
        )

    def _settlements(self, claims: int) -> list[tuple[int, Outcome]]:
        if not claims:
            return []
        recent = max(0, claims - 6)
        return [(self._random.randrange(recent, claims), self._outcome()) for _ in range(self._pick(1, 1, 2, 4))]

    def _settle(self, claims: int) -> dict[str, Any]:
        return {"settlements": self._settlements(claims)}

    def _turn(self, claims: int) -> dict[str, Any]:
        return {"settlements": self._settlements(claims), "request": self._request()}

    def _extend(self, claims: int) -> dict[str, Any]:
        picks = [self._random.randrange(claims) for _ in range(self._pick(1, 2))] if claims else []
        return {"claims": picks, "lease_ms": self._pick(1, 10, 300)}

    def _cancel(self, _: int) -> dict[str, Any]:
        return {"ids": [self._pick(*IDS), self._pick(*IDS)], "running": self._pick(True, False)}

    def _remove(self, _: int) -> dict[str, Any]:
        return {"ids": [self._pick(*IDS)]}

    def _replay(self, _: int) -> dict[str, Any]:
        picks = [self._pick(*IDS, LetterKey(0, self._pick(1, 2, 3))) for _ in range(self._pick(1, 2))]
        return {"picks": picks, "keep_counts": self._pick(False, True), "spread_ms": self._pick(0, 0, 50)}

    def _purge_dead(self, _: int) -> dict[str, Any]:
        return {"picks": [LetterKey(0, self._pick(1, 2, 3, 4))]}

    def _repair(self, _: int) -> dict[str, Any]:
        return {"queue": self._pick(*self.queues), "limit": self._pick(1, 100)}

    def _purge(self, _: int) -> dict[str, Any]:
        return {"limit": self._pick(1, 3)}

    def _configure(self, _: int) -> dict[str, Any]:
        changes = [
            {"paused": True},
            {"paused": False},
            {"fail_handler": True},
            {"max_attempts": self._pick(1, 2)},
            {"priority": self._pick(0, 9)},
            {"keep_done_ms": self._pick(0, 50)},
            {"keep_done_max": self._pick(0, 1, 3)},
            {"keep_dead_ms": self._pick(0, 100)},
            {"keep_dead_max": self._pick(0, 1)},
            {"waiting_max": self._pick(2, 100)},
            {"result_ttl_ms": self._pick(0, 30)},
        ]
        if self._trims:
            changes += [{"journal_keep_max": 5}, {"journal_keep_ms": 50}, {"journal_bytes_max": 500}]
        return {"queue": self.main, "changes": self._pick(*changes)}

    def _consume(self, _: int) -> dict[str, Any]:
        return {"seq": self._pick(0, 1, 5), "hold": self._pick(True, False)}


VERBS = (
    *("enqueue",) * 7,
    *("claim",) * 7,
    *("settle",) * 6,
    *("turn",) * 2,
    *("extend",) * 2,
    *("cancel",) * 2,
    *("replay",) * 2,
    *("configure",) * 2,
    *("repair",) * 2,
    "remove",
    "purge",
    "purge_dead",
    "consume",
)


class Actor:
    """Plays operations on one store and remembers the claims it was handed."""

    def __init__(self, store: Store, draw: Draw) -> None:
        self.store = store
        self.claims: list[Claim] = []
        self.main = draw.main
        self._queues = draw.queues

    async def play(self, op: Op) -> object:
        """The answer of the store, or the reason of its refusal."""
        try:
            return await getattr(self, f"_{op.verb}")(op.at_ms, **op.arguments)
        except Refused as refused:
            return refused.reason

    async def _enqueue(self, now_ms: int, jobs: list[Job]) -> object:
        return await self.store.jobs.enqueue(jobs, now_ms=now_ms)

    async def _claim(self, now_ms: int, request: ClaimRequest) -> object:
        claims = await self.store.jobs.claim(request, now_ms=now_ms)
        self.claims += claims.items
        return claims

    def _settled(self, settlements: list[tuple[int, Outcome]]) -> list[Settlement]:
        return [self.claims[position].settle(outcome, 7) for position, outcome in settlements]

    async def _settle(self, now_ms: int, settlements: list[tuple[int, Outcome]]) -> object:
        return await self.store.jobs.settle(self._settled(settlements), now_ms=now_ms)

    async def _turn(self, now_ms: int, settlements: list[tuple[int, Outcome]], request: ClaimRequest) -> object:
        turned = await self.store.jobs.turn(self._settled(settlements), request, now_ms=now_ms)
        self.claims += turned.claimed
        return turned

    async def _extend(self, now_ms: int, claims: list[int], lease_ms: int) -> object:
        leases = [self.claims[position].lease for position in claims]
        return await self.store.jobs.extend(leases, lease_ms=lease_ms, now_ms=now_ms)

    async def _cancel(self, now_ms: int, ids: list[str], running: bool) -> object:
        return await self.store.jobs.cancel(self.main, ids, running=running, now_ms=now_ms)

    async def _remove(self, now_ms: int, ids: list[str]) -> object:
        return await self.store.jobs.remove(self.main, ids, now_ms=now_ms)

    async def _replay(self, now_ms: int, **given: Any) -> object:
        return await self.store.dead.replay(self.main, now_ms=now_ms, **given)

    async def _purge_dead(self, now_ms: int, picks: list[LetterKey]) -> object:
        return await self.store.dead.purge(self.main, picks, now_ms=now_ms)

    async def _repair(self, now_ms: int, queue: Queue, limit: int) -> object:
        return await self.store.jobs.repair(queue, limit=limit, now_ms=now_ms)

    async def _purge(self, now_ms: int, limit: int) -> object:
        return await self.store.queues.purge(self.main, limit=limit, now_ms=now_ms)

    async def _configure(self, now_ms: int, queue: Queue, changes: dict[str, object]) -> object:
        return await self.store.queues.configure(queue, changes, now_ms=now_ms)

    async def _consume(self, now_ms: int, seq: int, hold: bool) -> object:
        shard = self.main.all_shards()[0]
        return await self.store.journal.register(shard, "reader", seq=seq, hold=hold, now_ms=now_ms)

    async def everything(self, now_ms: int) -> dict[str, object]:
        """All that can be seen of the store."""
        seen: dict[str, object] = {}
        for queue in self._queues:
            seen[f"counts {queue.tenant} {queue.full_name}"] = await self.store.queues.counts(queue, now_ms=now_ms)
            seen[f"config {queue.tenant} {queue.full_name}"] = await self.store.queues.configuration(queue)
            seen[f"workers {queue.tenant} {queue.full_name}"] = await self.store.reads.workers(queue, now_ms=now_ms)
            seen[f"find {queue.tenant} {queue.full_name}"] = await self.store.reads.find(queue, IDS, now_ms=now_ms)
            seen[f"dead {queue.tenant} {queue.full_name}"] = await self.store.dead.list(queue, now_ms=now_ms)
            for state in (State.WAITING, State.ACTIVE, State.BLOCKED, State.DONE, State.CANCELLED):
                name = f"{state} {queue.tenant} {queue.full_name}"
                seen[name] = await self.store.reads.list(queue, state, limit=3, now_ms=now_ms)
            for shard in queue.all_shards():
                seen[f"snapshot {shard}"] = await self.store.reads.snapshot(shard, now_ms=now_ms)
                seen[f"bounds {shard}"] = await self.store.journal.bounds(shard)
                seen[f"consumers {shard}"] = await self.store.journal.consumers(shard)
                entries = await self.store.journal.read(shard, 0, 2**62)
                seen[f"journal {shard}"] = [event for entry in entries for event in entry.events(shard)]
        seen["names"] = await self.store.queues.names("acme")
        seen["tenants"] = await self.store.queues.tenants()
        return seen


class Normal:
    """Makes answers of two stores comparable: fences and letter numbers by order, tokens not at all."""

    def __init__(self) -> None:
        self._ranks: dict[str, dict[int, int]] = {"fence": {}, "letter": {}}

    def of(self, value: object) -> object:
        """The answer as plain data."""
        return self._walk(msgspec.to_builtins(value))

    def _walk(self, value: Any) -> object:
        if isinstance(value, list):
            return [self._walk(each) for each in value]
        if isinstance(value, dict):
            return {name: self._field(name, each) for name, each in value.items()}
        return value

    def _field(self, name: str, value: Any) -> object:
        if name == "token":
            return None
        if name in self._ranks and isinstance(value, int):
            ranks = self._ranks[name]
            return ranks.setdefault(value, len(ranks))
        return self._walk(value)
