"""Random histories: one operation after the other, drawn from a random source and played on any store."""

import asyncio
import base64
import re
from collections.abc import Awaitable
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from headrace.model.claim import Claim, ClaimRequest, Settlement
from headrace.model.errors import Refused
from headrace.model.event import Event
from headrace.model.finished import DeadLetterKey
from headrace.model.job import Job, State, UpdateRunAt, new_job
from headrace.model.limits import PAGE_MAX
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Cancelled, Done, Failed, JobError, Outcome, Released, Retried
from headrace.model.policy import NO_POLICY, Policy
from headrace.model.results import Found, Group, Scan, View
from headrace.stores.contract.store import Store
from headrace.stores.engine.step import number_at

START_MS = 1_700_000_000_000
IDS = ("a", "b", "c:1", "d#2", "é", "f")
NO_DEAD_LETTER = DeadLetterKey(0, 2**62)
GROUPS: tuple[Group, ...] = ("alive", "ended", "dead")
VIEWS: tuple[View, ...] = ("next", "later", "active", "blocked", "finished", "dead")
KEYS = (None, None, None, "k1", "k2")
_INSTANT = re.compile(r"\0\d+\.\d+$")
"""In a cursor on Redis: epoch and seq of the journal."""


class Op(msgspec.Struct, frozen=True):
    """One operation with all its arguments; `claims` are positions in the list of all claims so far, numbers among
    `picks` are positions in the list of all dead letters of the first shard."""

    verb: str
    at_ms: int
    arguments: dict[str, Any]


class Draw:
    """Draws operations that tend to meet one another: few ids, short leases, small budgets."""

    def __init__(self, random: Random, shards: int, *, trims: bool = True) -> None:
        self._random = random
        self.main = Queue("main", "acme", shards)
        self.queues = (self.main, Queue("main", "other", shards), self.main.fail_queue)
        self._now_ms = START_MS
        self._trims = trims
        self._nonces = 0
        self._is_begun = False

    def _pick(self, *choices: Any) -> Any:
        return choices[self._random.randrange(len(choices))]

    def _maybe(self, *choices: Any) -> Any:
        return self._pick(None, None, *choices)

    def op(self, claims: int) -> Op:
        """The next operation, when this many claims were made so far."""
        self._now_ms += self._pick(0, 0, 1, 5, 5, 20, 100, 1_000)
        if not self._is_begun:
            # Half of the histories have a fail handler from the start: deaths then meet what is done on the fail queue.
            self._is_begun = True
            if self._pick(True, False):
                return Op("configure", self._now_ms, {"queue": self.main, "changes": {"fail_handler": True}})
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
        fail_queue = self.main.fail_queue
        queues = self._pick([self.main], [self.main, fail_queue], [fail_queue, self.main], [self.queues[1], self.main])
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
            Retried(error),
            Retried(error, delay_ms=0),
            Retried(error, jitter_ppm=self._pick(0, 333_333)),
            Failed(error),
            Failed(error),
            Released(),
            Released(10),
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
        picks = [self._pick(*IDS, self._pick(0, 1, 2)) for _ in range(self._pick(1, 2))]
        return {"picks": picks, "keep_counts": self._pick(False, True), "spread_ms": self._pick(0, 0, 50)}

    def _purge_dead(self, _: int) -> dict[str, Any]:
        return {"picks": [self._pick(0, 1, 2, 3)]}

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
            {"journal_payloads": self._pick(True, False)},
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

    async def _replay(self, now_ms: int, picks: list[str | int], **options: Any) -> object:
        keys = await self._dead_letters()
        found = [pick if isinstance(pick, str) else keys.get(pick, NO_DEAD_LETTER) for pick in picks]
        return await self.store.dead.replay(self.main, found, now_ms=now_ms, **options)

    async def _purge_dead(self, now_ms: int, picks: list[int]) -> object:
        keys = await self._dead_letters()
        return await self.store.dead.purge(self.main, [keys.get(pick, NO_DEAD_LETTER) for pick in picks], now_ms=now_ms)

    async def _dead_letters(self) -> dict[int, DeadLetterKey]:
        """The dead letters of the first shard by position, those whose time is over included."""
        dead_letters = (await self.store.dead.list(self.main, limit=PAGE_MAX, now_ms=0)).rows
        return dict(enumerate(dead_letter.key for dead_letter in dead_letters if dead_letter.key.shard == 0))

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
        """All that can be seen of the store: looked at all at once, which spares a server most of the round trips."""
        queues, reads, journal = self.store.queues, self.store.reads, self.store.journal
        looks: dict[str, Awaitable[object]] = {}
        for queue in self._queues:
            name = f"{queue.tenant} {queue.full_name}"
            looks[f"counts {name}"] = queues.counts(queue, now_ms=now_ms)
            looks[f"config {name}"] = queues.configuration(queue)
            looks[f"workers {name}"] = self._workers(queue, now_ms)
            looks[f"find {name}"] = reads.find(queue, IDS, now_ms=now_ms)
            looks[f"dead {name}"] = self.store.dead.list(queue, now_ms=now_ms)
            for state in (State.WAITING, State.ACTIVE, State.BLOCKED, State.DONE, State.CANCELLED):
                looks[f"{state} {name}"] = reads.list(queue, state, limit=3, now_ms=now_ms)
            for shard in queue.all_shards():
                looks[f"snapshot {shard}"] = reads.snapshot(shard, now_ms=now_ms)
                looks[f"scan {shard}"] = self._scan(shard, now_ms)
                looks[f"bounds {shard}"] = journal.bounds(shard)
                looks[f"consumers {shard}"] = journal.consumers(shard)
                looks[f"journal {shard}"] = self._journal(shard)
            for view in VIEWS:
                looks[f"browse {view} {name}"] = self._browse(queue, view, now_ms)
        looks["overview"] = queues.overview("acme", now_ms=now_ms)
        looks["names"] = queues.names("acme")
        looks["tenants"] = queues.tenants()
        return dict(zip(looks, await asyncio.gather(*looks.values()), strict=True))

    async def _workers(self, queue: Queue, now_ms: int) -> object:
        """The workers that were seen, of a fail queue only their names: the death that creates it and a claim on it may
        come in one turn; a store that decides shard by shard then notes the claim in fewer shards, in others later."""
        seen = await self.store.reads.workers(queue, now_ms=now_ms)
        return sorted({each.worker for each in seen}) if queue.is_fail_queue else seen

    async def _browse(self, queue: Queue, view: View, now_ms: int) -> list[Found]:
        """All rows of a view, those in the order of their store's own that stores need not share."""
        rows = (await self.store.reads.browse(queue, view, limit=PAGE_MAX, now_ms=now_ms)).rows
        match view:
            case "next" if queue.shards > 1:  # numbers of different shards
                return sorted(rows, key=_by_number)
            case "finished" | "dead":  # of one instant
                return sorted(rows, key=lambda row: (-_ended_at_ms(row), _by_number(row)))
            case _:
                return rows

    async def _scan(self, shard: Shard, now_ms: int) -> Scan:
        """One group at a time, since each costs a call; a scan is in no order."""
        part = await self.store.reads.scan(shard, GROUPS[now_ms % len(GROUPS)], now_ms=now_ms)
        return replace(part, rows=sorted(part.rows, key=_by_number))

    async def _journal(self, shard: Shard) -> list[Event]:
        return [event for entry in await self.store.journal.read(shard, 0, 2**62) for event in entry.events(shard)]


def _ended_at_ms(row: Found) -> int:
    return row.dead_letters[0].died_at_ms if row.finished_job is None else row.finished_job.ended_at_ms


def _by_number(row: Found) -> tuple[str, int, int]:
    """The order of a row in every store: dead letter numbers differ, but not their order."""
    head, _, number = row.id.rpartition("#")
    dead_letter = row.dead_letters[0].key.number if row.dead_letters else 0
    return (head, int(number), dead_letter) if number.isdecimal() else (row.id, 0, dead_letter)


class Pairing:
    """Translates answers of one store into the numbers of another: each store draws epochs, fences, dead letter numbers
    and order keys on its own, so a number of one must always stand for the same number of the other."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int], int] = {}

    def comparable(self, expected: object, answer: object) -> tuple[object, object]:
        """Both answers as plain data, the second in the terms of the first; tokens are left out."""
        wanted, found = msgspec.to_builtins(expected), msgspec.to_builtins(answer)
        return self._walk("", wanted, wanted), self._walk("", wanted, found)

    def _walk(self, name: str, wanted: Any, found: Any, id: str = "") -> object:
        if isinstance(found, dict) and isinstance(wanted, dict):
            # Fences and epochs are of a shard, so of an id: shards that were created at the same instant share numbers.
            id = str(wanted.get("id", id))
            members = {each: value for each, value in found.items() if each != "token"}
            return {each: self._walk(each, wanted.get(each), value, id) for each, value in members.items()}
        if isinstance(found, list | tuple) and isinstance(wanted, list | tuple):
            beside = [*wanted, *[None] * (len(found) - len(wanted))]
            return [self._walk(name, *pair, id) for pair in zip(beside, found, strict=False)]
        if wanted is found:
            return found
        if isinstance(found, int) and isinstance(wanted, int):
            return self._number(name, wanted, found, id)
        if isinstance(found, str) and isinstance(wanted, str):
            return self._cursor(wanted, found) if name == "cursor" else self._id(wanted, found)
        return found

    def _number(self, name: str, wanted: int, found: int, id: str = "") -> int:
        match name:
            case "fence" | "epoch":
                return self._known.setdefault((name, id, found), wanted)
            case "dead_letter" | "number":
                return self._known.setdefault(("dead_letter", "", found), wanted)
            case "order_key":
                number = self._known.setdefault((name, "", number_at(found)), number_at(wanted))
                return found - number_at(found) + number
        return found

    def _cursor(self, wanted: str, found: str) -> str:
        # A cursor holds an id, which the comparison must translate as well.
        texts = (base64.urlsafe_b64decode(each).decode() for each in (found, wanted))
        last, wanted_last = (_INSTANT.sub("", text) for text in texts)
        return base64.urlsafe_b64encode(self._id(wanted_last, last).encode()).decode()

    def _id(self, wanted: str, found: str) -> str:
        # The id of a job for the fail handler ends with the number of a dead letter.
        (head, _, dead_letter), (_, _, wanted_dead_letter) = found.rpartition("#"), wanted.rpartition("#")
        if dead_letter.isdecimal() and wanted_dead_letter.isdecimal():
            return f"{head}#{self._number('dead_letter', int(wanted_dead_letter), int(dead_letter))}"
        return found
