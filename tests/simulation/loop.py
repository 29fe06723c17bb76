"""An event loop on virtual time, whose callbacks belong to simulated processes that can crash and pause."""

import asyncio
import heapq
from asyncio import Handle, TimerHandle
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


TURNS_MAX = 300_000
"""A seed takes some thousand turns; more are an endless loop."""


class Stuck(AssertionError):
    """The loop cannot go on: nothing is ready and no timer is set, or it is endless."""


class Process:
    """A simulated process: everything that is started in it crashes and pauses with it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_crashed = False
        self.is_paused = False
        self.parked: list[Handle] = []
        """Callbacks that were due during a pause, in order."""

    def __repr__(self) -> str:
        return self.name


_PROCESS: ContextVar[Process | None] = ContextVar("simulated_process", default=None)


def current_process() -> Process | None:
    """The simulated process that is running; None is the world outside: network, servers, the test itself."""
    return _PROCESS.get()


class NumberedTask(asyncio.Task[Any]):
    """A task whose hash is its number: sets of tasks are walked in the same order whenever a seed is replayed."""

    def __init__(self, number: int, coro: Coroutine[Any, Any, Any], **arguments: Any) -> None:
        self.number = number  # before the base class puts the task into a set
        super().__init__(coro, **arguments)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.BaseEventLoop):
    """Time stands still while callbacks run and jumps to the next timer when none is ready. No input, no threads."""

    # The interpreter's own loop is used for everything but the waiting, so that tasks and futures are the real ones.
    _ready: "deque[Handle]"
    _scheduled: list[tuple[float, int, TimerHandle]]
    _stopping: bool

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._timers = 0
        self._turns = 0
        self._tasks: list[NumberedTask] = []
        self._closing = False
        self.set_task_factory(self._new_task)  # type: ignore[arg-type]
        self.unhandled: list[str] = []
        """Errors that reached the loop's exception handler."""
        self.set_exception_handler(self._note_unhandled)

    def time(self) -> float:
        """Virtual seconds since the loop was created."""
        return self._now

    def _new_task(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], context: Context | None = None
    ) -> NumberedTask:
        task = NumberedTask(len(self._tasks), coro, loop=loop, context=context)
        self._tasks.append(task)
        return task

    def unretrieved(self) -> list[str]:
        """Exceptions of tasks that were never retrieved."""
        return [repr(task) for task in self._tasks if task.done() and task._log_traceback]

    def _note_unhandled(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._closing:
            self.unhandled.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        self._turns += 1
        if self._turns > TURNS_MAX:
            raise Stuck(f"there is no end after {TURNS_MAX:,} turns of the loop")
        if not ready and not self._stopping:
            self._jump()
        while scheduled and scheduled[0][0] <= self._now:
            ready.append(heapq.heappop(scheduled)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                process = handle._context.get(_PROCESS)  # type: ignore[attr-defined]
                if process is None or not (process.is_crashed or process.is_paused):
                    handle._run()
                elif not process.is_crashed:
                    process.parked.append(handle)

    def _jump(self) -> None:
        scheduled = self._scheduled
        while scheduled:
            when, _, timer = scheduled[0]
            process = timer._context.get(_PROCESS)  # type: ignore[attr-defined]
            if not timer.cancelled() and (process is None or not process.is_crashed):
                self._now = max(self._now, when)
                return
            heapq.heappop(scheduled)
        raise Stuck("nothing is ready and no timer is set")

    # The three below do what the interpreter's do without looking for mistakes: a seed makes thousands of calls.

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        """With the next turn, in order."""
        handle = Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """After a delay."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> TimerHandle:
        """Timers for the same instant run in the order in which they were set."""
        timer = TimerHandle(when, callback, args, self, context)
        self._timers += 1
        heapq.heappush(self._scheduled, (when, self._timers, timer))
        return timer

    def _timer_handle_cancelled(self, handle: TimerHandle) -> None:
        """Cancelled timers are dropped when their time comes."""

    def _write_to_self(self) -> None:
        """There is no other thread to be woken from."""

    def _process_events(self, event_list: object) -> None:
        """There is no input."""

    def _asyncgen_finalizer_hook(self, agen: object) -> None:
        """A crashed process runs no finally."""

    def spawn(self, process: Process, coro: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run a coroutine in a process."""
        return self.create_task(coro, context=within(process))

    def crash(self, process: Process) -> None:
        """SIGKILL: nothing of the process runs any more, not even a finally."""
        process.is_crashed = True
        process.parked.clear()

    def pause(self, process: Process) -> None:
        """SIGSTOP: callbacks of the process are kept until it is resumed."""
        process.is_paused = True

    def resume(self, process: Process) -> None:
        """SIGCONT: run all callbacks that were due meanwhile, in order."""
        process.is_paused = False
        if not process.is_crashed:
            self._ready.extend(process.parked)
        process.parked.clear()

    def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Run to the end, then discard all other tasks in silence."""
        try:
            return self.run_until_complete(coro)
        finally:
            self._discard()
            self.close()

    def _discard(self) -> None:
        # Suspended coroutines run their finally blocks when they are collected: do it now, and not during another seed.
        self._closing = True
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coro = task.get_coro()
                with suppress(BaseException):
                    coro.close()
            elif not task.cancelled():
                task.exception()  # retrieve it, so that it is not reported
        self._tasks.clear()
        self._ready.clear()
        self._scheduled.clear()


def within(process: Process | None) -> Context:
    """A context whose callbacks belong to the process."""
    context = copy_context()
    context.run(_PROCESS.set, process)
    return context


def drive(coro: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, such as a step of the store in memory."""
    try:
        coro.send(None)
    except StopIteration as end:
        answer: T = end.value
        return answer
    coro.close()
    raise AssertionError("a step of the store in memory has to be made at once")
