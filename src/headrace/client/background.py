"""Runs coroutines for threads without an event loop, on one loop thread per process."""

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 - its own hooks must not be registered in the midst of a fork
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from headrace.model.errors import OutcomeUnknown, Refused
from headrace.model.limits import CTRL_C_MS, FORK_WAIT_MS
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store


class SharedStores:
    """Opens each URL once for all its users, and closes it after the last one."""

    def __init__(self) -> None:
        self._opening: dict[str, asyncio.Task[Store]] = {}
        self._users: dict[str, int] = {}

    async def acquire(self, url: str) -> Store:
        """The store at `url`, with one more user, until `release`."""
        opening = self._opening.get(url)
        if opening is None or has_failed(opening):
            opening = self._opening[url] = asyncio.create_task(open_store(url))
        self._users[url] = self._users.get(url, 0) + 1
        try:
            return await asyncio.shield(opening)  # others wait for it, too
        except BaseException:
            self._users[url] -= 1
            raise

    async def release(self, url: str) -> None:
        """Remove one user; the last one closes the store."""
        self._users[url] -= 1
        if not self._users[url]:
            del self._users[url]
            await (await self._opening.pop(url)).close()

    async def close(self, seconds: float) -> None:
        """Close all stores, used or not; a store that does not close in time stays open until the process ends."""
        for opening in self._opening.values():
            with contextlib.suppress(Exception):
                async with asyncio.timeout(seconds):
                    await (await opening).close()
        self._opening, self._users = {}, {}


def has_failed(task: "asyncio.Task[Store]") -> bool:
    """Whether the task ended without a store."""
    return task.done() and (task.cancelled() or task.exception() is not None)


T = TypeVar("T")


class Background:
    """Runs coroutines for waiting threads. The loop thread starts with the first call.

    A fork stops it: calls under way are finished, interruptible ones are cancelled, every store is closed and the
    thread ends; afterwards parent and child each start a new one with their next call. So no connection is in two
    processes: SQLite would take the child's connection for the parent's and lock nothing, and a server would get
    requests of two processes on one connection.
    """

    def __init__(self) -> None:
        self._gate = threading.RLock()
        """Held while the thread starts, and during a fork."""
        self._pid = os.getpid()
        self._loop_thread: _BackgroundLoop | None = None

    def run(self, make: Callable[[], Coroutine[Any, Any, T]], *, interruptible: bool = False) -> T:
        """Run the coroutine that `make` returns, and return its result; safe from every thread but the loop's own.

        An `interruptible` coroutine changes nothing and may wait for long: a fork cancels it and runs a new one.
        """
        while True:
            loop_thread = self._start()
            if threading.current_thread() is loop_thread.thread:
                raise Refused(
                    "wrong_thread",
                    "a blocking call on the thread of the event loop that would answer it never ends; await the client"
                    " itself there, or call from another thread",
                )
            call = _Call(make, loop_thread.loop)
            try:
                if loop_thread.submit(call, interruptible):
                    return call.wait()
                # else the thread was stopped meanwhile
            except asyncio.CancelledError as cancelled:
                if not loop_thread.is_stopping:
                    raise
                if not interruptible:
                    raise OutcomeUnknown(
                        "this process forked before the call was answered; check the store before you repeat it"
                    ) from cancelled
            except BaseException:
                call.cancel()  # such as Ctrl-C: nothing waits for it any more
                raise

    @property
    def stores(self) -> SharedStores:
        """The stores of the running call; on the loop thread."""
        assert self._loop_thread is not None  # the caller runs on this thread
        return self._loop_thread.stores

    @property
    def is_waiting(self) -> bool:
        """Whether an interruptible call is under way."""
        return self._loop_thread is not None and self._loop_thread.is_waiting

    def stop(self) -> None:
        """Finish the current calls, close the stores and end the thread; the next call starts another."""
        with self._gate:
            self._stop()

    def _start(self) -> "_BackgroundLoop":
        with self._gate:
            if self._pid != os.getpid():  # forked without hooks: the thread is in the parent
                self._loop_thread, self._pid = None, os.getpid()
            if self._loop_thread is None or not self._loop_thread.thread.is_alive():
                self._loop_thread = _BackgroundLoop()
            return self._loop_thread

    def _stop(self) -> None:
        loop_thread = self._loop_thread
        is_ours = self._pid == os.getpid()
        if loop_thread is not None and is_ours and threading.current_thread() is not loop_thread.thread:
            loop_thread.stop()
            self._loop_thread = None

    def before_fork(self) -> None:
        """Stop, and block callers until the fork is over."""
        self._gate.acquire()
        self._stop()

    def after_fork(self) -> None:
        """Unblock callers, in the parent and in the child."""
        if self._pid != os.getpid():
            self._loop_thread, self._pid = None, os.getpid()  # a thread that did not end is still in the parent
        self._gate.release()


class _Call(Generic[T]):
    """A coroutine on the background's loop, with the thread that waits for it.

    Ctrl-C may come between any two lines of the waiting thread. So the thread holds no lock that the loop needs, as it
    would with `concurrent.futures`: the latch is a C lock, and the loop does everything else.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]], loop: asyncio.AbstractEventLoop) -> None:
        self._make = make
        self._loop = loop
        self._latch = threading.Lock()
        self._latch.acquire()
        self._task: asyncio.Task[T] | None = None

    def wait(self) -> T:
        """What the coroutine returns or raises."""
        # A signal just before the thread sleeps does not wake it, so it wakes regularly.
        while not self._latch.acquire(timeout=CTRL_C_MS / 1_000):
            pass
        assert self._task is not None  # the latch opens when the coroutine has ended
        return self._task.result()

    def cancel(self) -> None:
        """Cancel it if it is still under way."""
        with contextlib.suppress(RuntimeError):  # its loop is closed, so it has ended
            self._loop.call_soon_threadsafe(self._cancel_task)

    def start(self, under_way: "set[asyncio.Task[Any]]") -> None:
        """Begin; on the loop."""
        self._task = self._loop.create_task(self._make())
        under_way.add(self._task)
        self._task.add_done_callback(under_way.discard)
        self._task.add_done_callback(self._on_done)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _on_done(self, task: "asyncio.Task[T]") -> None:
        if not task.cancelled():
            task.exception()  # marks it as retrieved: asyncio complains of an error that nobody waits for
        self._latch.release()


class _BackgroundLoop:
    """A thread with its event loop, its stores and its current calls."""

    def __init__(self) -> None:
        self.is_stopping = False
        self.stores = SharedStores()
        self._lock = threading.Lock()
        self._calls: set[asyncio.Task[Any]] = set()
        self._interruptible: set[asyncio.Task[Any]] = set()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._work, name="headrace-background", daemon=True)
        self.thread.start()

    def submit(self, call: "_Call[Any]", interruptible: bool) -> bool:
        """Start a call; False if the thread is stopping."""
        with self._lock:
            if not self.is_stopping:
                self.loop.call_soon_threadsafe(call.start, self._interruptible if interruptible else self._calls)
            return not self.is_stopping

    @property
    def is_waiting(self) -> bool:
        """Whether an interruptible call is under way."""
        return bool(self._interruptible)

    def stop(self) -> None:
        """Wait for the calls, cancel the interruptible ones, close the stores and end the thread."""
        with self._lock:
            self.is_stopping = True  # a call that was submitted before starts before `_finish`
        with contextlib.suppress(RuntimeError):  # its loop is closed: another thread has stopped it
            asyncio.run_coroutine_threadsafe(self._finish(), self.loop)
        self.thread.join(2 * FORK_WAIT_MS / 1_000)

    async def _finish(self) -> None:
        try:
            under_way = self._calls | self._interruptible
            for task in self._interruptible:
                task.cancel()
            if under_way:  # cancelled ones, too: they release their resources while the store is open
                await asyncio.wait(under_way, timeout=FORK_WAIT_MS / 1_000)
            await self.stores.close(FORK_WAIT_MS / 1_000)
        finally:
            self.loop.stop()

    def _work(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            with contextlib.suppress(RuntimeError):  # no thread can be started any more while Python ends
                self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()


BACKGROUND = Background()
"""The loop thread of this process."""


class StorePortal:
    """Calls a store from any thread, inside an event loop or not: `with StorePortal(url) as portal:`.

    The store stays open until the block ends. A notebook has a running loop in its thread already, so calls run on the
    process's loop thread.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> Self:
        BACKGROUND.run(lambda: BACKGROUND.stores.acquire(self._url))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        BACKGROUND.run(self._release)

    def call(self, function: Callable[[Store], Awaitable[T]]) -> T:
        """The result of an async function of the store."""

        async def run() -> T:
            # A fork closes the store, and the next call opens another.
            store = await BACKGROUND.stores.acquire(self._url)
            try:
                return await function(store)
            finally:
                await self._release()

        return BACKGROUND.run(run)

    async def _release(self) -> None:
        with contextlib.suppress(KeyError):  # a fork has closed it already
            await BACKGROUND.stores.release(self._url)


os.register_at_fork(
    before=BACKGROUND.before_fork,
    after_in_parent=BACKGROUND.after_fork,
    after_in_child=BACKGROUND.after_fork,
)
atexit.register(BACKGROUND.stop)
# Executors end before exit functions run, and stores need their executors to close. This is the executors' own hook;
# the last registered one runs first.
getattr(threading, "_register_atexit", atexit.register)(BACKGROUND.stop)
