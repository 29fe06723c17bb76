"""The runner by itself: cases that depend on a single turn of the worker's loop."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from headrace.client.tasks import is_eager
from headrace.model.claim import Claim, Lease
from headrace.model.job import Record
from headrace.model.outcome import Cancelled, JobError, Outcome, Released, Retried
from headrace.stores.contract.store import Store
from headrace.worker.context import Context
from headrace.worker.events import ActiveDelivery, EventEmitter, Stop
from headrace.worker.handlers import Middleware, Next, handler_of
from headrace.worker.outcomes import Outcomes
from headrace.worker.pools.process_pool import ProcessPool
from headrace.worker.pools.threads import ThreadPool
from headrace.worker.runner import Runner
from tests.worker.support import MAIL, SOON_S, build_handlers, job, run_until_idle


async def around(context: Context, call_next: Next) -> Any:
    """Middleware that changes nothing."""
    return await call_next(context)


BEGINNINGS = pytest.mark.parametrize("has_factory", [False, True], ids=["plain-tasks", "task-factory"])
MIDDLEWARE = pytest.mark.parametrize("middleware", [(), (around,)], ids=["bare", "middleware"])


async def end_of(
    function: Any,
    middleware: Sequence[Middleware],
    has_factory: bool,
    stop: Stop | None = None,
    timeout_ms: int = 0,
) -> Outcome | None:
    """How a run ends that is stopped where it is started, or has so much time. Its task takes its first step in a later
    turn of the loop: they do before Python 3.12, and where the program makes them."""
    loop = asyncio.get_running_loop()
    if has_factory:
        loop.set_task_factory(lambda loop, coroutine, **given: asyncio.Task(coroutine, loop=loop, **given))
    elif is_eager(loop) and not middleware:
        pytest.skip("from Python 3.12 on it takes its first step where it is made")
    record = Record(id="a", kind="work", payload=b"{}", run_at_ms=1, enqueued_at_ms=1)
    claim = Claim(Lease(MAIL, "a", "t.7", 7, 31_000), record, "worker-1", 5, timeout_ms, 1_000)
    run = ActiveDelivery(1, claim, handler := handler_of("work", function), 1e9)
    ends: list[Outcome | None] = []

    def ended(_: ActiveDelivery, outcome: Outcome | None, __: int) -> None:
        ends.append(outcome)

    with closing(ThreadPool(1)) as threads:
        outcomes = Outcomes(random.Random(7))
        handlers = build_handlers(work=handler)
        runner = Runner(handlers, outcomes, middleware, threads, ProcessPool(1), ended, EventEmitter([]))
        runner.start([run])
        if stop is not None:
            runner.stop(run, stop)
        assert run.task is not None
        async with asyncio.timeout(SOON_S):
            await run.task
    [end] = ends
    return end


@BEGINNINGS
@MIDDLEWARE
@pytest.mark.parametrize(("stop", "outcome"), [("drain", Released()), ("cancel", Cancelled()), ("lost", None)])
async def test_a_run_that_is_stopped_before_its_handler_began_never_begins(
    middleware: Sequence[Middleware], has_factory: bool, stop: Stop, outcome: Outcome | None
) -> None:
    begun: list[str] = []

    async def work() -> None:
        begun.append("work")

    end = await end_of(work, middleware, has_factory, stop)

    assert (end, begun) == (outcome, [])


@BEGINNINGS
@MIDDLEWARE
async def test_a_time_limit_holds_where_tasks_begin_later(middleware: Sequence[Middleware], has_factory: bool) -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    end = await end_of(work, middleware, has_factory, timeout_ms=20)

    assert isinstance(end, Retried)
    assert end.error == JobError("TimedOut", "the handler was still running after its 0.02 s")


async def test_the_task_of_a_handler_is_named_for_the_kind_of_its_job(store: Store) -> None:
    names: list[str] = []

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        names.append(task.get_name())

    await store.jobs.enqueue([job("a")])
    await run_until_idle(store, build_handlers(work=work))

    assert names == ["work"]
