"""Middleware wraps every handler, outermost first."""

from typing import Any

import pytest

from headrace.model.job import State
from headrace.model.outcome import JobError
from headrace.stores.contract.store import Store
from headrace.worker.context import Context, current
from headrace.worker.exceptions import Release
from headrace.worker.handlers import Next, handler_of
from tests.worker import process_handlers
from tests.worker.support import build_handlers, dead_letters, find, job, run_until_idle


async def add(one: int, other: int) -> int:
    """A handler."""
    return one + other


ADD = job("a", "add", payload=b'{"one":1,"other":2}')


async def result_of(store: Store, id: str = "a") -> bytes | None:
    """What was kept."""
    finished_job = (await find(store, id)).finished_job
    assert finished_job is not None
    return finished_job.result


async def test_middleware_runs_outermost_first_plain_or_not(store: Store) -> None:
    """T27: outermost first, functions and coroutine functions mixed."""
    steps = []

    async def outer(context: Context, call_next: Next) -> Any:
        steps.append(f"outer in {context.job.id}")
        result = await call_next(context)
        steps.append(f"outer out {result}")
        return result

    def plain(context: Context, call_next: Next) -> Any:
        steps.append("plain")
        return call_next(context)

    async def inner(context: Context, call_next: Next) -> Any:
        steps.append("inner in")
        return await call_next(context) + 1

    await store.jobs.enqueue([ADD])
    await run_until_idle(store, build_handlers(add=add), middleware=[outer, plain, inner])

    assert steps == ["outer in a", "plain", "inner in", "outer out 4"]
    assert await result_of(store) == b"4"


async def test_middleware_may_answer_in_the_place_of_the_handler(store: Store) -> None:
    """T27: also with a finished job, and without a coroutine."""
    ran = []

    async def work() -> None:
        ran.append(1)

    def gatekeeper(context: Context, _: Next) -> Any:
        return "not needed" if context.job.id == "a" else Release(delay="1m")

    await store.jobs.enqueue([job("a"), job("b")])
    await run_until_idle(store, build_handlers(work=work), middleware=[gatekeeper])

    assert ran == []
    assert await result_of(store) == b'"not needed"'
    assert (await find(store, "b")).state is State.WAITING


@pytest.mark.parametrize("is_plain", [False, True])
async def test_what_middleware_raises_is_how_the_attempt_ended(store: Store, is_plain: bool) -> None:
    """T27: the worker recovers from everything that is raised inside."""

    def plain(_: Context, __: Next) -> Any:
        raise PermissionError("not today")

    async def coroutine(context: Context, call_next: Next) -> Any:
        return plain(context, call_next)

    await store.jobs.enqueue([job("a", "add", payload=ADD.payload, max_attempts=1)])
    await run_until_idle(store, build_handlers(add=add), middleware=[plain if is_plain else coroutine])

    assert [dead_letter.error for dead_letter in await dead_letters(store)] == [
        JobError("PermissionError", "not today")
    ]


async def test_middleware_sees_what_the_handler_raises_and_may_make_it_good(store: Store) -> None:
    """T27: an exception passes through the chain."""

    async def broken() -> None:
        raise ValueError("no")

    async def forgiving(context: Context, call_next: Next) -> Any:
        try:
            return await call_next(context)
        except ValueError as error:
            return f"forgiven: {error}"

    await store.jobs.enqueue([job("a", "broken")])
    await run_until_idle(store, build_handlers(broken=broken), middleware=[forgiving])

    assert await result_of(store) == b'"forgiven: no"'


async def test_middleware_sees_values_wherever_they_were_made(store: Store) -> None:
    """T27: a plain function and one in a process are wrapped like any other."""
    seen = []

    async def looking(context: Context, call_next: Next) -> Any:
        seen.append((context.job.kind, result := await call_next(context)))
        return result

    def plain() -> dict[str, int]:
        return {"answer": 42}

    await store.jobs.enqueue([job("a", "plain"), job("b", "name")])
    handlers = build_handlers(plain=plain, name=handler_of("name", process_handlers.name, process=True))
    await run_until_idle(store, handlers, middleware=[looking], pool_size=1)

    assert sorted(seen) == [("name", "b"), ("plain", {"answer": 42})]
    assert (await result_of(store, "a"), await result_of(store, "b")) == (b'{"answer":42}', b'"b"')


async def test_middleware_and_handler_know_the_same_job(store: Store) -> None:
    ids = []

    def looking(context: Context, call_next: Next) -> Any:
        ids.append((context.job.id, current().job.id))
        return call_next(context)

    async def work() -> str:
        return current().job.id

    await store.jobs.enqueue([job("a")])
    await run_until_idle(store, build_handlers(work=work), middleware=[looking])

    assert ids == [("a", "a")]
    assert await result_of(store) == b'"a"'


async def test_what_middleware_passes_on_must_be_as_the_handler_is_annotated(store: Store) -> None:
    async def number() -> int:
        return "no"  # type: ignore[return-value]

    async def passing(context: Context, call_next: Next) -> Any:
        return await call_next(context)

    await store.jobs.enqueue([job("a", "number")])
    await run_until_idle(store, build_handlers(number=number), middleware=[passing])

    [dead_letter] = await dead_letters(store)
    assert dead_letter.error.cls == "BadResult"
