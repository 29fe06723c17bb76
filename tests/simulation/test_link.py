"""The simulated network: senders get only possible answers, and calls have only possible effects."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from headrace.model.claim import ClaimRequest
from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.job import Job
from headrace.model.names import Queue
from tests.simulation.link import Link
from tests.simulation.loop import Process, VirtualLoop, drive
from tests.simulation.network import FIRST_MS, FaultRates, Route, Server

QUEUE = Queue("mail")
REQUEST = ClaimRequest(queues=[QUEUE], worker="w", nonce="nonce-01", limit=10)


class Silent:
    """A watcher that keeps what it saw."""

    def __init__(self) -> None:
        self.seen: list[tuple[Process, str, Any, Any]] = []
        self.heard: list[tuple[Process, str, Any, Any]] = []

    @property
    def verbs(self) -> list[str]:
        """What was applied."""
        return [verb for _, verb, _, _ in self.seen]

    def sent(self, verb: str, arguments: Any) -> None:
        """Nobody looks."""

    def applied(self, sender: Process, verb: str, arguments: Any, answer: Any, sent_at: float) -> None:
        """Keep it."""
        assert sent_at >= 0
        self.seen.append((sender, verb, arguments, answer))

    def answered(self, sender: Process, verb: str, arguments: Any, answer: Any, sent_at: float) -> None:
        """Keep it."""
        assert sent_at >= 0
        self.heard.append((sender, verb, arguments, answer))


Story = Callable[[Link], Coroutine[Any, Any, Any]]


def play(story: Story, rates: FaultRates) -> tuple[Any, Server, Silent]:
    """Let a process live through a story in some weather."""
    loop, silent = VirtualLoop(), Silent()
    server = Server(loop, silent)
    process = Process("p")
    link = Link(Route(server, process, Random(1), rates))

    async def whole() -> Any:
        return await loop.spawn(process, story(link))

    return loop.run(whole()), server, silent


def jobs(*ids: str, queue: Queue = QUEUE) -> list[Job]:
    return [Job(queue=queue, id=id, kind="k") for id in ids]


def waiting(server: Server, queue: Queue = QUEUE) -> int:
    return drive(server.store.queues.counts(queue)).waiting


def test_a_call_takes_its_time_there_and_back() -> None:
    async def story(link: Link) -> float:
        await link.jobs.enqueue(jobs("a"))
        return asyncio.get_running_loop().time()

    seconds, server, _ = play(story, FaultRates(latency_s=10.0))

    assert 2 < seconds < 22
    assert waiting(server) == 1


def test_a_request_that_was_not_sent_is_not_applied_and_its_sender_knows() -> None:
    async def story(link: Link) -> None:
        with pytest.raises(StoreUnavailable):
            await link.jobs.enqueue(jobs("a"))

    _, server, silent = play(story, FaultRates(drop_request=1.0))

    assert silent.verbs == []
    assert server.faults == {"drop_request": 1}


@pytest.mark.parametrize(("rates", "left"), [(FaultRates(lose_request=1.0), 0), (FaultRates(lose_reply=1.0), 1)])
def test_a_sender_cannot_tell_a_lost_request_from_a_lost_reply(rates: FaultRates, left: int) -> None:
    async def story(link: Link) -> tuple[str, ...]:
        with pytest.raises(OutcomeUnknown) as lost:
            await link.jobs.enqueue(jobs("a"))
        return lost.value.unknown

    unknown, server, _ = play(story, rates)

    assert unknown == ("a",)
    assert waiting(server) == left


def test_a_call_over_several_shards_may_be_answered_in_part() -> None:
    queue = Queue("report", shards=3)
    ids = [f"job-{number}" for number in range(30)]

    async def story(link: Link) -> OutcomeUnknown:
        while True:
            try:
                await link.jobs.enqueue(jobs(*ids, queue=queue))
            except OutcomeUnknown as lost:
                if lost.known:
                    return lost

    lost, _, _ = play(story, FaultRates(lose_part=1.0))

    assert sorted([answer.id for answer in lost.known] + list(lost.unknown)) == sorted(ids)


def test_a_doubled_claim_is_answered_once_with_the_same_jobs() -> None:
    async def story(link: Link) -> list[str]:
        await link.jobs.enqueue(jobs("a", "b"))
        return [claim.record.id for claim in (await link.jobs.claim(REQUEST)).items]

    ids, _, silent = play(story, FaultRates(double=1.0))

    assert ids == ["a", "b"]
    assert silent.verbs == ["enqueue", "enqueue", "claim", "claim"]


def test_a_request_goes_on_when_its_sender_was_cancelled() -> None:
    async def story(link: Link) -> None:
        task = asyncio.create_task(link.jobs.enqueue(jobs("a")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(60)

    _, server, _ = play(story, FaultRates(latency_s=10.0))

    assert waiting(server) == 1


def test_a_partition_lets_nothing_through_until_it_ends() -> None:
    async def story(link: Link) -> None:
        link.route.cut()
        with pytest.raises((StoreUnavailable, OutcomeUnknown)):
            await link.jobs.enqueue(jobs("a"))
        link.route.join()
        await link.jobs.enqueue(jobs("b"))

    _, server, silent = play(story, FaultRates())

    assert silent.verbs == ["enqueue"]
    assert waiting(server) == 1


def test_a_waiter_is_woken_by_an_enqueue() -> None:
    async def story(link: Link) -> tuple[bool, float]:
        asyncio.get_running_loop().call_later(5, lambda: asyncio.ensure_future(link.jobs.enqueue(jobs("a"))))
        found = await link.signals.wait([QUEUE], 60_000)
        return found, asyncio.get_running_loop().time()

    (found, seconds), _, _ = play(story, FaultRates())

    assert found
    assert 5 < seconds < 5.1


def test_the_stores_clock_jumps_without_moving_the_time() -> None:
    loop = VirtualLoop()
    server = Server(loop, Silent())

    server.clock.skew_ms -= 30_000

    assert server.store._engine.tx.now_ms() == FIRST_MS - 30_000
    assert loop.time() == 0
    loop.close()
