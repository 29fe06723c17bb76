"""Parked claims: new work wakes the first of those that wait, and nothing is lost when one of them leaves."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from headrace.client.parked_claims import ParkedClaims
from headrace.model.claim import ClaimRequest, Claims
from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.job import State, new_job
from headrace.model.names import Queue
from headrace.stores.memory.store import MemoryStore
from headrace.testing.faults import ForwardingStore, StoreCall

MAIL = Queue("mail", "acme")
OTHER = Queue("other", "acme")
NONCES = count()
LONG_MS = 30_000


class CountingStore(ForwardingStore):
    """Counts calls, and lets a test act before or after one."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(), self._count)
        self.calls: Counter[str] = Counter()
        self.before: dict[str, Callable[[], Any]] = {}
        self.after: dict[str, Callable[[], Any]] = {}

    async def _count(self, call: StoreCall) -> Any:
        self.calls[call.name] += 1
        if call.name in self.before:
            await self.before[call.name]()
        answer = await call.act()
        if call.name in self.after:
            await self.after[call.name]()
        return answer


def request(*queues: Queue, worker: str = "worker-1", limit: int = 1) -> ClaimRequest:
    """A claim with a nonce of its own."""
    return ClaimRequest(queues=queues or (MAIL,), worker=worker, nonce=f"nonce-{next(NONCES):06}", limit=limit)


async def enqueue(store: CountingStore, *ids: str, queue: Queue = MAIL, delay_ms: int | None = None) -> None:
    """Enqueue jobs, all in one call."""
    jobs = [new_job(queue, "send", b"1", fresh_id=id, id=id, delay_ms=delay_ms) for id in ids]
    await store.jobs.enqueue(jobs)


async def settled_loop() -> None:
    """Let everything run that can run without waiting."""
    for _ in range(50):
        await asyncio.sleep(0)


async def park(parked: ParkedClaims, number: int, *queues: Queue) -> list[asyncio.Task[Claims]]:
    """Let this many claims stand in line, each of a worker of its own."""
    before = len(parked)
    tasks = [
        asyncio.create_task(parked.claim(request(*queues, worker=f"worker-{index}"), LONG_MS))
        for index in range(number)
    ]
    await settled_loop()
    assert len(parked) == before + number
    return tasks


@asynccontextmanager
async def parking() -> AsyncIterator[tuple[CountingStore, ParkedClaims]]:
    """A store and its parked claims, which are closed in the end."""
    store = CountingStore()
    parked = ParkedClaims(store)
    yield store, parked
    await parked.close()
    assert len(parked) == 0


def ids(claims: Claims) -> list[str]:
    """The ids of the claimed jobs."""
    return [claim.record.id for claim in claims.items]


async def test_one_job_for_thousands_of_waiting_claims_costs_the_store_two_calls() -> None:
    async with parking() as (store, parked):
        tasks = await park(parked, 3_000)
        before = store.calls.copy()

        await enqueue(store, "a")
        claims = await tasks[0]
        await settled_loop()

        assert ids(claims) == ["a"]
        assert store.calls["jobs.claim"] - before["jobs.claim"] <= 2
        assert before["signals.wait"] == 1
        assert [task for task in tasks if task.done()] == tasks[:1]


async def test_claims_are_served_in_the_order_in_which_they_came() -> None:
    async with parking() as (store, parked):
        tasks = await park(parked, 5)

        for number in range(5):
            await enqueue(store, f"job-{number}")
            claims = await tasks[number]
            assert ids(claims) == [f"job-{number}"]
            assert claims.items[0].worker == f"worker-{number}"
            assert not any(task.done() for task in tasks[number + 1 :])


async def test_jobs_that_come_together_are_handed_to_as_many_claims() -> None:
    async with parking() as (store, parked):
        tasks = await park(parked, 10)
        before = store.calls["jobs.claim"]

        await enqueue(store, "a", "b", "c", "d")
        found = await asyncio.gather(*tasks[:4])
        await settled_loop()

        assert [ids(claims) for claims in found] == [["a"], ["b"], ["c"], ["d"]]
        assert store.calls["jobs.claim"] - before == 5
        assert not any(task.done() for task in tasks[4:])


async def test_claims_of_other_queues_stand_in_a_line_of_their_own() -> None:
    async with parking() as (store, parked):
        [mail] = await park(parked, 1, MAIL)
        [other] = await park(parked, 1, OTHER)
        [both] = await park(parked, 1, OTHER, MAIL)

        await enqueue(store, "a", queue=OTHER)
        found = await asyncio.wait({other, both}, return_when=asyncio.FIRST_COMPLETED)

        assert [ids(task.result()) for task in found[0]] == [["a"]]
        assert not mail.done()


async def test_a_claim_that_finds_work_does_not_wait() -> None:
    async with parking() as (store, parked):
        await enqueue(store, "a")

        assert ids(await parked.claim(request(), LONG_MS)) == ["a"]
        assert store.calls["signals.wait"] == 0


async def test_a_claim_gives_up_after_its_time() -> None:
    async with parking() as (store, parked):
        await enqueue(store, "later", delay_ms=60_000)

        claims = await parked.claim(request(), 20)

        assert claims.items == []
        assert claims.next_at_ms is not None
        assert 59_000 < claims.next_at_ms - claims.now_ms <= 60_000 - 20
        assert len(parked) == 0


async def test_a_claim_without_time_to_wait_looks_once() -> None:
    async with parking() as (store, parked):
        assert (await parked.claim(request(), 0)).items == []
        assert store.calls == {"jobs.claim": 1}


async def test_a_waiting_claim_is_woken_by_a_job_that_becomes_due() -> None:
    async with parking() as (store, parked):
        await enqueue(store, "later", delay_ms=30)

        assert ids(await parked.claim(request(), LONG_MS)) == ["later"]


async def test_a_repeated_claim_gets_its_jobs_at_once_while_others_wait() -> None:
    async with parking() as (store, parked):
        await park(parked, 3)
        lost = request(worker="worker-7")
        await enqueue(store, "a", queue=OTHER)
        lost = ClaimRequest(queues=[MAIL, OTHER], worker="worker-7", nonce=lost.nonce)
        await parked.claim(lost, LONG_MS)

        repeated = await parked.claim(lost, LONG_MS)

        assert ids(repeated) == ["a"]


async def test_a_claim_that_leaves_the_line_gives_its_place_to_the_next() -> None:
    async with parking() as (store, parked):
        first, second = await park(parked, 2)
        first.cancel()
        await settled_loop()

        await enqueue(store, "a")

        assert ids(await second) == ["a"]
        assert store.calls["jobs.settle"] == 0


async def test_a_job_claimed_for_one_that_has_left_is_released_and_goes_to_the_next() -> None:
    async with parking() as (store, parked):
        first, second = await park(parked, 2)

        async def leave() -> None:
            store.after.clear()
            first.cancel()
            await settled_loop()

        store.after["jobs.claim"] = leave
        await enqueue(store, "a")
        claims = await second

        assert first.cancelled()
        assert ids(claims) == ["a"]
        record = claims.items[0].record
        assert (record.attempts, record.stalls, claims.items[0].worker) == (0, 0, "worker-1")


async def test_a_job_is_released_when_its_claim_leaves_with_the_answer_in_hand() -> None:
    async with parking() as (store, parked):
        [first] = await park(parked, 1)

        async def answered() -> None:
            asyncio.get_running_loop().call_soon(first.cancel)

        store.after["jobs.claim"] = answered
        await enqueue(store, "a")
        await asyncio.wait([first])
        await settled_loop()

        [found] = await store.reads.find(MAIL, ["a"])
        assert first.cancelled()
        assert found is not None
        assert (found.state, store.calls["jobs.settle"]) == (State.WAITING, 1)


async def test_a_claim_cancelled_on_its_way_releases_what_it_finds() -> None:
    async with parking() as (store, parked):
        await enqueue(store, "a")
        reached = asyncio.Event()

        async def hold() -> None:
            reached.set()
            await settled_loop()

        store.before["jobs.claim"] = hold
        task = asyncio.create_task(parked.claim(request(), LONG_MS))
        await reached.wait()
        task.cancel()
        await asyncio.wait([task])
        await parked.close()

        [found] = await store.reads.find(MAIL, ["a"])
        assert found is not None
        assert (found.state, found.record.attempts if found.record else None) == (State.WAITING, 0)


async def test_an_unavailable_store_fails_every_waiting_claim_with_an_error_of_its_own() -> None:
    async with parking() as (store, parked):
        tasks = await park(parked, 3)

        async def fail() -> None:
            raise StoreUnavailable("the store is away")

        store.before["jobs.claim"] = fail
        await enqueue(store, "a")
        errors = await asyncio.gather(*tasks, return_exceptions=True)

        assert [type(error) for error in errors] == [StoreUnavailable] * 3
        assert len({id(error) for error in errors}) == 3
        store.before.clear()
        assert ids(await parked.claim(request(), LONG_MS)) == ["a"]


async def test_a_lost_answer_fails_only_the_claim_that_it_was_for() -> None:
    async with parking() as (store, parked):
        first, second = await park(parked, 2)

        async def lose() -> None:
            store.after.clear()
            raise OutcomeUnknown("the answer was lost")

        store.after["jobs.claim"] = lose
        await enqueue(store, "a")
        with pytest.raises(OutcomeUnknown):
            await first
        await settled_loop()

        assert not second.done()


async def test_closing_answers_all_waiting_claims_with_no_jobs() -> None:
    async with parking() as (_, parked):
        tasks = await park(parked, 3)

        await parked.close()

        assert [(await task).items for task in tasks] == [[], [], []]
        assert (await parked.claim(request(), LONG_MS)).items == []


async def test_nothing_waits_on_the_store_once_the_line_is_empty() -> None:
    async with parking() as (store, parked):
        tasks = await park(parked, 3)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await settled_loop()

        assert len(parked) == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert store.calls["signals.wait"] == 1
