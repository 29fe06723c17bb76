"""The runner by itself: what a worker brings about only by the chance of one turn of its loop."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pytest

from headrace.model.claim import Claim, Lease
from headrace.model.job import Record
from headrace.model.outcome import Cancelled, JobError, Outcome, Release, Retry
from headrace.worker.context import Context
from headrace.worker.ending import Endings
from headrace.worker.handlers import handler_of
from headrace.worker.middleware import Middleware, Next
from headrace.worker.notices import Notices
from headrace.worker.pools.processes import ProcessPool
from headrace.worker.pools.threads import ThreadPool
from headrace.worker.run import Run, Stop
from headrace.worker.runner import Runner
from tests.worker.support import MAIL, SOON_S, handling


async def around(context: Context, call_next: Next) -> Any:
    """Middleware that changes nothing."""
    return await call_next(context)


async def end_of(
    function: Any, middleware: Sequence[Middleware], stop: Stop | None = None, timeout_ms: int = 0
) -> Outcome | None:
    """How a run ends that is stopped where it is started, or has so much time. Its task takes its first step in a later
    turn of the loop, as tasks do by default before Python 3.12."""
    loop = asyncio.get_running_loop()
    loop.set_task_factory(lambda loop, coroutine, **given: asyncio.Task(coroutine, loop=loop, **given))
    record = Record(id="a", kind="work", payload=b"{}", run_at_ms=1, enqueued_at_ms=1)
    claim = Claim(Lease(MAIL, "a", "t.7", 7, 31_000), record, "worker-1", 5, timeout_ms, 1_000)
    run = Run(1, claim, handler := handler_of("work", function), 1e9)
    ends: list[Outcome | None] = []

    def ended(_: Run, outcome: Outcome | None, __: int) -> None:
        ends.append(outcome)

    with closing(ThreadPool(1)) as threads:
        endings = Endings(random.Random(7))
        handlers = handling(work=handler)
        runner = Runner(handlers, endings, middleware, threads, ProcessPool(1), ended, Notices([]))
        runner.start([run])
        if stop is not None:
            runner.stop(run, stop)
        assert run.task is not None
        async with asyncio.timeout(SOON_S):
            await run.task
    [end] = ends
    return end


@pytest.mark.parametrize("middleware", [(), (around,)], ids=["bare", "middleware"])
@pytest.mark.parametrize(("stop", "outcome"), [("drain", Release()), ("cancel", Cancelled()), ("lost", None)])
async def test_a_run_that_is_stopped_before_its_handler_began_never_begins(
    middleware: Sequence[Middleware], stop: Stop, outcome: Outcome | None
) -> None:
    begun: list[str] = []

    async def work() -> None:
        begun.append("work")

    end = await end_of(work, middleware, stop)

    assert (end, begun) == (outcome, [])


@pytest.mark.parametrize("middleware", [(), (around,)], ids=["bare", "middleware"])
async def test_a_time_limit_holds_where_tasks_begin_later(middleware: Sequence[Middleware]) -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    end = await end_of(work, middleware, timeout_ms=20)

    assert isinstance(end, Retry)
    assert end.error == JobError("TimedOut", "the handler was still running after its 0.02 s")
