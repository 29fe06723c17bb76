"""Handlers that do what the payload of their job says: succeed, raise, linger, ignore that they are cancelled."""

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
"""What to do in one delivery: the word, milliseconds of work, and a detail."""


class ScriptedError(Exception):
    """What a handler raises when its script says so."""


def draw_plan(chance: Random, lease_ms: int) -> list[Step]:
    """What the deliveries of a job do, one after the other, and the last step in all that follow: there is an end."""
    plan = [_draw_step(chance, lease_ms) for _ in range(chance.choice((0, 0, 0, 1, 1, 2, 3)))]
    last = "ok" if chance.random() < 0.85 else "fail"
    is_long = chance.random() < 0.12
    ms = chance.randrange(lease_ms, 3 * lease_ms) if is_long else chance.randrange(1, lease_ms // 2)
    return [*plan, [last, ms, 0]]


def _draw_step(chance: Random, lease_ms: int) -> Step:
    ms = chance.randrange(1, lease_ms) if chance.random() < 0.8 else chance.randrange(lease_ms, 2 * lease_ms)
    word = chance.choice(("ok", "raise", "raise", "retry", "fail", "release", "stubborn", "long"))
    match word:
        case "retry" | "release":
            return [word, ms, chance.randrange(0, 5_000)]
        case "stubborn":
            return [word, ms, chance.randrange(1, 2 * lease_ms)]
        case "long":
            return ["ok", chance.randrange(lease_ms, 4 * lease_ms), 0]
        case _:
            return [word, ms, 0]


async def handle(plan: list[Step], mark: str, weight: int) -> Any:
    """One delivery in the process that is running."""
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


# Both ends weak: a checker knows its processes, and would keep itself alive.
_CHECKERS: WeakKeyDictionary[Process, ref[Checker]] = WeakKeyDictionary()
# Made once: reading annotations takes longer than a simulated job.
_QUICK = handler_of("quick", _quick)
_HEAVY = {
    1: handler_of("heavy", _quick),
    2: handler_of("heavy", _heavy_2, weight=2),
    3: handler_of("heavy", _heavy_3, weight=3),
}
_DEATH = handler_of("headrace.fail", _death, style="listed")


def make_handlers(checker: Checker, process: Process, queues: list[Queue], heavy: int, deaths: list[Queue]) -> Handlers:
    """The handlers of one worker: `quick` weighs 1, `heavy` may weigh more, and deaths are handled where wanted."""
    _CHECKERS[process] = ref(checker)
    handlers = Handlers()
    handlers.register(_QUICK, *queues)
    handlers.register(_HEAVY[heavy], *queues)
    for queue in deaths:
        handlers.register_fail(_DEATH, queue)
    return handlers


async def perform(checker: Checker, run: Run, step: Step, mark: str) -> Any:
    """One delivery, told to the checker."""
    word, ms, detail = step
    try:
        await asyncio.sleep(ms / 1000)
    except asyncio.CancelledError:
        checker.told_to_stop(run)
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
    """Go on however often one is told to stop."""
    task = asyncio.get_running_loop().create_task(asyncio.sleep(seconds))
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            continue
