"""A fail handler is told of every death on its queue."""

import asyncio
from typing import Any, NoReturn

from headrace.model.job import State
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from headrace.testing.faults import FaultyStore
from headrace.worker.context import current
from headrace.worker.handlers import FAIL_KIND, Handlers, handler_of
from tests.worker.support import MAIL, dead_letters, find, handling, job, work_off

REPORTS = Queue("reports")


class Deaths:
    """A fail handler that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any, dict[str, str]]] = []

    async def hear(self, id: str, payload: Any, error: dict[str, str]) -> None:
        """Take note."""
        self.told.append((id, payload, error))

    def plain(self, id: str, payload: Any, error: dict[str, str]) -> None:
        """The same in a thread."""
        self.told.append((id, payload, error))


async def broken(number: int) -> NoReturn:
    """A handler that always fails."""
    raise ValueError(f"no {number}")


def watched(fail: Any, queue: Queue = MAIL) -> Handlers:
    """Handlers with one for deaths."""
    handlers = handling(queue, broken=broken)
    handlers.register_fail(handler_of(FAIL_KIND, fail, style="listed"), queue)
    return handlers


async def test_a_death_is_told_with_id_payload_and_error(store: Store) -> None:
    """Q30, Q41: `[id, payload, error]`, the error by class, message and reason."""
    deaths = Deaths()
    handlers = watched(deaths.hear)
    await work_off(store, handlers)  # from its start on, deaths are told
    await store.jobs.enqueue([job("a", "broken", payload=b'{"number":7}', max_attempts=2, backoff_ms=0)])

    await work_off(store, watched(deaths.hear))

    assert deaths.told == [("a", {"number": 7}, {"class": "ValueError", "message": "no 7", "reason": "attempts"})]
    assert len(await dead_letters(store)) == 1
    assert (await store.queues.counts(MAIL.fail_queue)).done == 1


async def test_the_first_start_asks_for_deaths_and_the_next_leaves_it_at_that(flaky: FaultyStore) -> None:
    """Q30: a queue is configured once."""
    for _ in range(2):
        await work_off(flaky, watched(Deaths().hear))

    assert (await flaky.queues.configuration(MAIL)).fail_handler
    assert flaky.calls["configure"] == 1


async def test_a_plain_function_may_be_told_of_deaths_as_well(store: Store) -> None:
    deaths = Deaths()
    await store.queues.configure(MAIL, {"fail_handler": True})
    await store.jobs.enqueue([job("a", "broken", payload=b'{"number":7}', max_attempts=1)])

    await work_off(store, watched(deaths.plain))

    assert [id for id, *_ in deaths.told] == ["a"]


async def test_an_unknown_kind_and_a_bad_payload_are_deaths_too(store: Store) -> None:
    """Q30, T26: the reason tells why nothing was tried."""
    deaths = Deaths()
    await store.queues.configure(MAIL, {"fail_handler": True})
    await store.jobs.enqueue([job("a", "brokem"), job("b", "broken", payload=b"[]")])

    await work_off(store, watched(deaths.hear))

    assert sorted((id, error["class"], error["reason"]) for id, _, error in deaths.told) == [
        ("a", "UnknownKind", "failed"),
        ("b", "BadPayload", "failed"),
    ]


async def test_a_fail_handler_that_fails_is_tried_again_and_its_death_is_told_to_nobody(store: Store) -> None:
    """Q30: a fail queue has no fail queue."""
    attempts = []

    async def bad(_: str, __: Any, ___: Any) -> None:
        attempts.append(current().attempt)
        raise RuntimeError("deaf")

    await store.queues.configure(MAIL, {"fail_handler": True})
    await store.queues.configure(MAIL.fail_queue, {"max_attempts": 3, "backoff_ms": 0})
    await store.jobs.enqueue([job("a", "broken", payload=b'{"number":7}', max_attempts=1)])
    await work_off(store, watched(bad))

    assert attempts == [1, 2, 3]
    [dead_letter] = await dead_letters(store, MAIL.fail_queue)
    assert dead_letter.error.cls == "RuntimeError"


async def test_deaths_are_told_apart_by_queue(store: Store) -> None:
    """Q30: each queue has a handler of its own for its deaths, or none."""
    mail, reports = Deaths(), Deaths()
    handlers = handling(MAIL, REPORTS, Queue("other"), broken=broken)
    for deaths, queue in ((mail, MAIL), (reports, REPORTS)):
        handlers.register_fail(handler_of(FAIL_KIND, deaths.hear, style="listed"), queue)
        await store.queues.configure(queue, {"fail_handler": True})
    for queue in (MAIL, REPORTS, Queue("other")):
        await store.jobs.enqueue(
            [job(f"in-{queue.name}", "broken", queue=queue, payload=b'{"number":1}', max_attempts=1)]
        )
    await work_off(store, handlers)

    assert [id for id, *_ in mail.told] == ["in-mail"]
    assert [id for id, *_ in reports.told] == ["in-reports"]
    assert (await find(store, "in-other", Queue("other"))).state is State.DEAD


async def test_a_death_is_told_to_whoever_listens_even_if_another_worker_saw_it(store: Store) -> None:
    """Q30: one worker works, another is told."""
    deaths = Deaths()
    listening = Handlers()
    listening.register_fail(handler_of(FAIL_KIND, deaths.hear, style="listed"), MAIL)
    await work_off(store, listening)
    await store.jobs.enqueue([job("a", "broken", payload=b'{"number":1}', max_attempts=1)])

    await work_off(store, handling(broken=broken))
    async with asyncio.timeout(5):
        await work_off(store, listening)

    assert [id for id, *_ in deaths.told] == ["a"]
