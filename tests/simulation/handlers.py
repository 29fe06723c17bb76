"""Handlers that follow the script in their payload: succeed, raise, run long, ignore their cancellation."""

import asyncio
from random import Random
from typing import Any
from weakref import WeakKeyDictionary, ref

from headrace.model.names import Queue
from headrace.worker.context import current
from headrace.worker.exceptions import Fail, Release, Retry
from headrace.worker.handlers import Handlers, handler_of
from tests.simulation.checker import Checker
from tests.simulation.history import Run
from tests.simulation.loop import Process, current_process

Step = list[Any]
"""The script of one delivery: action, milliseconds of work, and a detail."""


class ScriptedError(Exception):
    """The exception of a scripted failure."""


def draw_plan(rng: Random, lease_ms: int) -> list[Step]:
    """The steps of a job's deliveries, in order; the last one, which ends the job, repeats."""
    plan = [_draw_step(rng, lease_ms) for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 3)))]
    last = "ok" if rng.random() < 0.85 else "fail"
    is_long = rng.random() < 0.12
    ms = rng.randrange(lease_ms, 3 * lease_ms) if is_long else rng.randrange(1, lease_ms // 2)
    return [*plan, [last, ms, 0]]


def _draw_step(rng: Random, lease_ms: int) -> Step:
    ms = rng.randrange(1, lease_ms) if rng.random() < 0.8 else rng.randrange(lease_ms, 2 * lease_ms)
    word = rng.choice(("ok", "raise", "raise", "retry", "fail", "release", "stubborn", "long"))
    match word:
        case "retry" | "release":
            return [word, ms, rng.randrange(0, 5_000)]
        case "stubborn":
            return [word, ms, rng.randrange(1, 2 * lease_ms)]
        case "long":
            return ["ok", rng.randrange(lease_ms, 4 * lease_ms), 0]
        case _:
            return [word, ms, 0]


async def handle(plan: list[Step], mark: str, weight: int) -> Any:
    """Run one delivery in the current process."""
    context, process = current(), current_process()
    assert process is not None
    checker = _CHECKERS[process]()
    assert checker is not None  # its world lives
    key = (context.job.queue, context.job.id)
    number = checker.starts[key]
    run = checker.start(process, key, context.fence, weight)
    return await perform(checker, run, plan[min(number, len(plan) - 1)], f"{mark}#{context.fence}")


async def _quick(plan: list[Step], mark: str) -> Any:
    return await handle(plan, mark, 1)


async def _heavy_2(plan: list[Step], mark: str) -> Any:
    return await handle(plan, mark, 2)


async def _heavy_3(plan: list[Step], mark: str) -> Any:
    return await handle(plan, mark, 3)


async def _death(id: str, payload: Any, error: Any) -> Any:
    assert payload is not None or error is not None
    return await handle([["ok", 50, 0]], id, 1)


# Weak on both sides: a checker refers to its processes, and would keep itself alive.
_CHECKERS: WeakKeyDictionary[Process, ref[Checker]] = WeakKeyDictionary()
# Built once: reading annotations takes longer than a simulated job.
_QUICK = handler_of("quick", _quick)
_HEAVY = {
    1: handler_of("heavy", _quick),
    2: handler_of("heavy", _heavy_2, weight=2),
    3: handler_of("heavy", _heavy_3, weight=3),
}
_DEATH = handler_of("headrace.fail", _death, style="listed")


def make_handlers(checker: Checker, process: Process, queues: list[Queue], heavy: int, deaths: list[Queue]) -> Handlers:
    """The handlers of one worker: `quick` weighs 1, `heavy` may weigh more; fail handlers for the queues in
    `deaths`."""
    _CHECKERS[process] = ref(checker)
    handlers = Handlers()
    handlers.register(_QUICK, *queues)
    handlers.register(_HEAVY[heavy], *queues)
    for queue in deaths:
        handlers.register_fail(_DEATH, queue)
    return handlers


async def perform(checker: Checker, run: Run, step: Step, mark: str) -> Any:
    """Run one step, and report it to the checker."""
    word, ms, detail = step
    try:
        await asyncio.sleep(ms / 1000)
    except asyncio.CancelledError:
        checker.note_cancellation(run)
        if word == "stubborn":
            await _ignoring(detail / 1000)
        checker.end(run, "cancelled")
        raise
    match word:
        case "raise":
            checker.end(run, "raise")
            raise ScriptedError(mark)
        case "retry":
            checker.end(run, "retry", detail)
            raise Retry(mark, delay=detail / 1000)
        case "release":
            checker.end(run, "release", detail)
            raise Release(delay=detail / 1000)
        case "fail":
            checker.end(run, "fail")
            raise Fail(mark)
        case _:
            checker.end(run, "ok", mark)
            return mark


async def _ignoring(seconds: float) -> None:
    """Go on, however often the task is cancelled."""
    task = asyncio.get_running_loop().create_task(asyncio.sleep(seconds))
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            continue
