"""A fail handler gets every dead letter of its queue."""

import asyncio
from typing import Any, NoReturn

from headrace.model.job import State
from headrace.model.names import FAIL_KIND, Queue
from headrace.stores.contract.store import Store
from headrace.testing.faults import FaultyStore
from headrace.worker.context import current
from headrace.worker.handlers import Handlers, handler_of
from tests.worker.support import MAIL, build_handlers, dead_letters, find, job, run_until_idle

REPORTS = Queue("reports")


class Deaths:
    """A fail handler that records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any, dict[str, str]]] = []

    async def handle(self, id: str, payload: Any, error: dict[str, str]) -> None:
        """Record a call."""
        self.calls.append((id, payload, error))

    def plain(self, id: str, payload: Any, error: dict[str, str]) -> None:
        """The same in a thread."""
        self.calls.append((id, payload, error))


async def broken(number: int) -> NoReturn:
    """A handler that always fails."""
    raise ValueError(f"no {number}")


def watched(fail: Any, queue: Queue = MAIL) -> Handlers:
    """Handlers with one for deaths."""
    handlers = build_handlers(queue, broken=broken)
    handlers.register_fail(handler_of(FAIL_KIND, fail, style="listed"), queue)
    return handlers


async def test_a_fail_job_has_id_payload_and_error(store: Store) -> None:
    """Q30, Q41: `[id, payload, error]`, the error by class, message and reason."""
    deaths = Deaths()
    handlers = watched(deaths.handle)
    await run_until_idle(store, handlers)  # from its start on, deaths are told
    await store.jobs.enqueue([job("a", "broken", payload=b'{"number":7}', max_attempts=2, backoff_ms=0)])

    await run_until_idle(store, watched(deaths.handle))

    assert deaths.calls == [("a", {"number": 7}, {"class": "ValueError", "message": "no 7", "reason": "attempts"})]
    assert len(await dead_letters(store)) == 1
    assert (await store.queues.counts(MAIL.fail_queue)).done == 1


async def test_the_first_start_asks_for_deaths_and_the_next_leaves_it_at_that(flaky: FaultyStore) -> None:
    """Q30: a queue is configured once."""
    for _ in range(2):
        await run_until_idle(flaky, watched(Deaths().handle))

    assert (await flaky.queues.configuration(MAIL)).fail_handler
    assert flaky.calls["configure"] == 1


async def test_a_plain_function_may_be_a_fail_handler(store: Store) -> None:
    deaths = Deaths()
    await store.queues.configure(MAIL, {"fail_handler": True})
    await store.jobs.enqueue([job("a", "broken", payload=b'{"number":7}', max_attempts=1)])

    await run_until_idle(store, watched(deaths.plain))

    assert [id for id, *_ in deaths.calls] == ["a"]


async def test_an_unknown_kind_and_a_bad_payload_are_deaths_too(store: Store) -> None:
    """Q30, T26: the reason explains why there was no attempt."""
    deaths = Deaths()
    await store.queues.configure(MAIL, {"fail_handler": True})
    await store.jobs.enqueue([job("a", "brokem"), job("b", "broken", payload=b"[]")])

    await run_until_idle(store, watched(deaths.handle))

    assert sorted((id, error["class"], error["reason"]) for id, _, error in deaths.calls) == [
        ("a", "UnknownKind", "failed"),
        ("b", "BadPayload", "failed"),
    ]


async def test_a_failing_fail_handler_is_retried_and_its_death_makes_no_fail_job(store: Store) -> None:
    """Q30: a fail queue has no fail queue."""
    attempts = []

    async def bad(_: str, __: Any, ___: Any) -> None:
        attempts.append(current().attempt)
        raise RuntimeError("deaf")

    await store.queues.configure(MAIL, {"fail_handler": True})
    await store.queues.configure(MAIL.fail_queue, {"max_attempts": 3, "backoff_ms": 0})
    await store.jobs.enqueue([job("a", "broken", payload=b'{"number":7}', max_attempts=1)])
    await run_until_idle(store, watched(bad))

    assert attempts == [1, 2, 3]
    [dead_letter] = await dead_letters(store, MAIL.fail_queue)
    assert dead_letter.error.cls == "RuntimeError"


async def test_each_queue_has_its_own_fail_handler(store: Store) -> None:
    """Q30: each queue has a handler of its own for its deaths, or none."""
    mail, reports = Deaths(), Deaths()
    handlers = build_handlers(MAIL, REPORTS, Queue("other"), broken=broken)
    for deaths, queue in ((mail, MAIL), (reports, REPORTS)):
        handlers.register_fail(handler_of(FAIL_KIND, deaths.handle, style="listed"), queue)
        await store.queues.configure(queue, {"fail_handler": True})
    for queue in (MAIL, REPORTS, Queue("other")):
        await store.jobs.enqueue(
            [job(f"in-{queue.name}", "broken", queue=queue, payload=b'{"number":1}', max_attempts=1)]
        )
    await run_until_idle(store, handlers)

    assert [id for id, *_ in mail.calls] == ["in-mail"]
    assert [id for id, *_ in reports.calls] == ["in-reports"]
    assert (await find(store, "in-other", Queue("other"))).state is State.DEAD


async def test_a_death_in_another_worker_reaches_the_fail_handler(store: Store) -> None:
    """Q30: one worker runs the jobs, another the fail handler."""
    deaths = Deaths()
    listening = Handlers()
    listening.register_fail(handler_of(FAIL_KIND, deaths.handle, style="listed"), MAIL)
    await run_until_idle(store, listening)
    await store.jobs.enqueue([job("a", "broken", payload=b'{"number":1}', max_attempts=1)])

    await run_until_idle(store, build_handlers(broken=broken))
    async with asyncio.timeout(5):
        await run_until_idle(store, listening)

    assert [id for id, *_ in deaths.calls] == ["a"]
