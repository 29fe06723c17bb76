"""The pool of threads."""

import asyncio
import gc
import threading
import weakref
from contextvars import ContextVar
from functools import partial

import pytest

from headrace.model.errors import BadConfig, Refused
from headrace.worker.pools.threads import ThreadPool
from tests.worker.pools.support import SOON_S, turn_over

COLOUR: ContextVar[str] = ContextVar("colour")


class Gate:
    """A call that has begun when `begun` is set, and ends when it is opened."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.begun = asyncio.Event()
        self.open = threading.Event()
        self.is_over = False

    def __call__(self) -> str:
        self._loop.call_soon_threadsafe(self.begun.set)
        assert self.open.wait(SOON_S)
        self.is_over = True
        return "through"


async def begin(pool: ThreadPool) -> tuple[Gate, asyncio.Task[str]]:
    """A call that is running and waits at its gate."""
    gate = Gate(asyncio.get_running_loop())
    task = asyncio.create_task(pool.run(gate))
    async with asyncio.timeout(SOON_S):
        await gate.begun.wait()
    return gate, task


async def test_a_call_answers_what_it_returns() -> None:
    pool = ThreadPool(2, name="reader")

    name = await pool.run(lambda: threading.current_thread().name)

    assert name == "reader-1"
    assert pool.free == 2
    pool.close()


async def test_a_call_sees_a_copy_of_the_context_and_changes_only_that() -> None:
    pool = ThreadPool(1)
    COLOUR.set("blue")

    def repaint() -> str:
        seen = COLOUR.get()
        COLOUR.set("red")
        return seen

    assert await pool.run(repaint) == "blue"
    assert await pool.run(COLOUR.get) == "blue"
    assert COLOUR.get() == "blue"
    pool.close()


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
async def test_whatever_a_call_raises_comes_back_and_leaves_its_thread_alive(error: BaseException) -> None:
    pool = ThreadPool(1)

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await pool.run(fail)

    assert caught.value is error
    assert await pool.run(lambda: threading.current_thread().name) == "headrace-handler-1"
    pool.close()


async def test_stop_iteration_comes_back_as_an_error_and_no_caller_hangs() -> None:
    pool = ThreadPool(1)

    with pytest.raises(RuntimeError, match="StopIteration"):
        await pool.run(iter(()).__next__)

    assert pool.free == 1
    pool.close()


async def test_a_cancelled_call_is_over_only_when_its_thread_is() -> None:
    """TB7: a handler that ignores its time-out is waited for: the job cannot start elsewhere beside it."""
    pool = ThreadPool(1)
    gate, task = await begin(pool)

    task.cancel()
    await turn_over()
    task.cancel()
    await turn_over()
    still_awaited, free = not task.done(), pool.free
    gate.open.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert still_awaited
    assert free == 0
    assert gate.is_over
    assert pool.free == 1
    pool.close()


async def test_a_time_out_is_raised_after_the_thread_has_ended() -> None:
    pool = ThreadPool(1)
    gate = Gate(asyncio.get_running_loop())

    async def limited() -> None:
        async with asyncio.timeout(None) as limit:
            running = asyncio.create_task(pool_watch(gate, limit))
            try:
                await pool.run(gate)
            finally:
                await running

    with pytest.raises(TimeoutError):
        await limited()

    assert gate.is_over
    pool.close()


async def pool_watch(gate: Gate, limit: asyncio.Timeout) -> None:
    """End the time of a call that has begun, then let it go on."""
    await gate.begun.wait()
    limit.reschedule(asyncio.get_running_loop().time())
    await turn_over()
    gate.open.set()


async def test_an_error_after_a_cancellation_is_not_left_unretrieved() -> None:
    pool = ThreadPool(1)
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    gate = Gate(asyncio.get_running_loop())

    def fail() -> None:
        gate()
        raise ValueError("too late")

    task = asyncio.create_task(pool.run(fail))
    await gate.begun.wait()
    task.cancel()
    gate.open.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()

    assert not complaints
    pool.close()


async def test_abandon_stops_waiting_for_all_and_their_threads_are_not_free() -> None:
    pool = ThreadPool(2)
    (gate, plain), (other_gate, cancelled) = await begin(pool), await begin(pool)
    queued = asyncio.create_task(pool.run(lambda: None))
    cancelled.cancel()
    await turn_over()

    pool.abandon()
    await turn_over()

    assert plain.cancelled()
    assert cancelled.cancelled()
    assert queued.cancelled()
    assert pool.free == 0
    gate.open.set()
    other_gate.open.set()
    pool.close()


async def test_an_abandoned_thread_is_free_again_when_its_call_has_ended() -> None:
    pool = ThreadPool(1)
    gate, task = await begin(pool)
    pool.abandon()
    await asyncio.wait([task])

    gate.open.set()
    async with asyncio.timeout(SOON_S):
        name = await pool.run(lambda: threading.current_thread().name)

    assert name == "headrace-handler-1"
    assert pool.free == 1
    pool.close()


async def test_more_calls_than_threads_wait_in_order() -> None:
    pool = ThreadPool(1)
    gate, first = await begin(pool)
    done: list[int] = []
    later = [asyncio.create_task(pool.run(partial(done.append, number))) for number in range(4)]
    await turn_over()
    before = list(done)

    later[1].cancel()
    gate.open.set()
    await asyncio.wait([first, *later])

    assert before == []
    assert done == [0, 2, 3]
    assert pool.free == 1
    pool.close()


async def test_close_ends_idle_threads_and_refuses_more() -> None:
    before = set(threading.enumerate())
    pool = ThreadPool(2)
    gate, task = await begin(pool)
    await pool.run(lambda: None)

    pool.close()
    gate.open.set()
    answer = await task

    assert answer == "through"
    for thread in set(threading.enumerate()) - before:
        thread.join(SOON_S)
        assert not thread.is_alive()
    with pytest.raises(Refused, match="closed"):
        await pool.run(lambda: None)


async def test_threads_are_daemons_that_cannot_hold_up_the_end_of_the_program() -> None:
    pool = ThreadPool(1)

    is_daemon = await pool.run(lambda: threading.current_thread().daemon)

    assert is_daemon
    pool.close()


async def test_an_idle_thread_keeps_nothing_of_its_last_call() -> None:
    class Result:
        pass

    pool, loop, forgotten = ThreadPool(1), asyncio.get_running_loop(), asyncio.Event()

    weakref.finalize(await pool.run(Result), loop.call_soon_threadsafe, forgotten.set)

    async with asyncio.timeout(SOON_S):
        await forgotten.wait()
    pool.close()


def test_a_pool_of_no_threads_is_refused() -> None:
    with pytest.raises(BadConfig, match="at least 1"):
        ThreadPool(0)
