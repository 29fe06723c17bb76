"""The background: one thread with an event loop per process, for callers that have none."""

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 - its own hooks must not be registered in the midst of a fork
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from headrace.model.errors import OutcomeUnknown, Refused
from headrace.model.limits import CTRL_C_MS, FORK_REST_MS
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store


class SharedStores:
    """Opens each URL once, whoever asks and how many at the same time; closed when the last user has let go."""

    def __init__(self) -> None:
        self._opening: dict[str, asyncio.Task[Store]] = {}
        self._users: dict[str, int] = {}

    async def take(self, url: str) -> Store:
        """The store at `url`, with one user more; give it back with `let_go`."""
        opening = self._opening.get(url)
        if opening is None or has_failed(opening):
            opening = self._opening[url] = asyncio.create_task(open_store(url))
        self._users[url] = self._users.get(url, 0) + 1
        try:
            return await asyncio.shield(opening)  # others wait for it, too
        except BaseException:
            self._users[url] -= 1
            raise

    async def let_go(self, url: str) -> None:
        """One user less; the last one closes the store."""
        self._users[url] -= 1
        if not self._users[url]:
            del self._users[url]
            await (await self._opening.pop(url)).close()

    async def close(self, seconds: float) -> None:
        """Close all of them, whoever uses them; what cannot be closed in time is left to the end of the process."""
        for opening in self._opening.values():
            with contextlib.suppress(Exception):
                async with asyncio.timeout(seconds):
                    await (await opening).close()
        self._opening, self._users = {}, {}


def has_failed(task: "asyncio.Task[Store]") -> bool:
    """Whether the task is over without a store."""
    return task.done() and (task.cancelled() or task.exception() is not None)


T = TypeVar("T")


class Background:
    """Runs coroutines for threads that wait for them. The thread is made on first use, and again after a rest.

    Before a fork the background rests: calls under way are finished, waits are broken off, everything that was opened
    is closed and the thread ends; afterwards parent and child each start anew with their next call. So nothing is
    carried over: SQLite would take the child's connections for the parent's and lock nothing, and servers would hear
    two processes on one connection.
    """

    def __init__(self) -> None:
        self._gate = threading.RLock()
        """Held while the thread is started, and for as long as a fork takes."""
        self._pid = os.getpid()
        self._crew: _LoopThread | None = None

    def run(self, make: Callable[[], Coroutine[Any, Any, T]], *, patient: bool = False) -> T:
        """Run the coroutine that `make` makes and return what it returns; safe from every thread but its own.

        A `patient` one changes nothing and may wait for long: a rest breaks it off, and it is made anew.
        """
        while True:
            crew = self._started()
            if threading.current_thread() is crew.thread:
                raise Refused(
                    "wrong_thread",
                    "a blocking call on the thread of the event loop that would answer it never ends; await the client"
                    " itself there, or call from another thread",
                )
            call = _Call(make, crew.loop)
            try:
                if crew.submit(call, patient):
                    return call.wait()
                # else it went to rest just now
            except asyncio.CancelledError as broken:
                if not crew.resting:
                    raise
                if not patient:
                    raise OutcomeUnknown(
                        "a fork of this process did not wait for this call any longer; look before asking again"
                    ) from broken
            except BaseException:
                call.give_up()  # Ctrl-C, for one: nobody waits for it any more
                raise

    @property
    def stores(self) -> SharedStores:
        """What the running call may open; on the background's own thread."""
        assert self._crew is not None  # whoever asks is run by it
        return self._crew.stores

    @property
    def is_waiting(self) -> bool:
        """Whether a patient call is under way."""
        return self._crew is not None and self._crew.is_waiting

    def rest(self) -> None:
        """Finish what is under way, close what was opened, and end the thread; the next call starts it anew."""
        with self._gate:
            self._rest()

    def _started(self) -> "_LoopThread":
        with self._gate:
            if self._pid != os.getpid():  # a fork that no hook told us of: the thread is not in this process
                self._crew, self._pid = None, os.getpid()
            if self._crew is None or not self._crew.thread.is_alive():
                self._crew = _LoopThread()
            return self._crew

    def _rest(self) -> None:
        crew = self._crew
        if crew is not None and self._pid == os.getpid() and threading.current_thread() is not crew.thread:
            crew.end()
            self._crew = None

    def before_fork(self) -> None:
        """Rest, and let nobody start before the fork is over."""
        self._gate.acquire()
        self._rest()

    def after_fork(self) -> None:
        """Let callers in again, in the parent and in the child."""
        if self._pid != os.getpid():
            self._crew, self._pid = None, os.getpid()  # a thread that would not rest has stayed with the parent
        self._gate.release()


class _Call(Generic[T]):
    """A coroutine on the background's loop, and the thread that waits for it.

    Ctrl-C may come between any two lines of the waiting thread. So it holds no lock that the loop needs, as a future of
    `concurrent.futures` would have it do: a C lock is its latch, and all else happens on the loop.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]], loop: asyncio.AbstractEventLoop) -> None:
        self._make = make
        self._loop = loop
        self._latch = threading.Lock()
        self._latch.acquire()
        self._task: asyncio.Task[T] | None = None

    def wait(self) -> T:
        """What the coroutine returns or raises."""
        # A signal that comes just before the thread falls asleep does not wake it: it looks by itself now and then.
        while not self._latch.acquire(timeout=CTRL_C_MS / 1_000):
            pass
        assert self._task is not None  # the latch is opened when it is done
        return self._task.result()

    def give_up(self) -> None:
        """Break it off if it is still under way."""
        with contextlib.suppress(RuntimeError):  # its loop is closed, and it is over
            self._loop.call_soon_threadsafe(self._cancel)

    def start(self, under_way: "set[asyncio.Task[Any]]") -> None:
        """Begin; on the loop."""
        self._task = self._loop.create_task(self._make())
        under_way.add(self._task)
        self._task.add_done_callback(under_way.discard)
        self._task.add_done_callback(self._tell)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _tell(self, task: "asyncio.Task[T]") -> None:
        if not task.cancelled():
            task.exception()  # seen: whoever waited may be gone, and asyncio would complain
        self._latch.release()


class _LoopThread:
    """One thread, its loop, and what it has under way."""

    def __init__(self) -> None:
        self.resting = False
        self.stores = SharedStores()
        self._lock = threading.Lock()
        self._patient: set[asyncio.Task[Any]] = set()
        self._brisk: set[asyncio.Task[Any]] = set()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._work, name="headrace-background", daemon=True)
        self.thread.start()

    def submit(self, call: "_Call[Any]", patient: bool) -> bool:
        """Start a call; False when it is too late for that."""
        with self._lock:
            if not self.resting:
                self.loop.call_soon_threadsafe(call.start, self._patient if patient else self._brisk)
            return not self.resting

    @property
    def is_waiting(self) -> bool:
        """Whether a patient call is under way."""
        return bool(self._patient)

    def end(self) -> None:
        """Wait for the brisk, break off the patient, close everything, and let the thread end."""
        with self._lock:
            self.resting = True  # whatever was submitted before is started before `_finish`
        with contextlib.suppress(RuntimeError):  # its loop is closed: somebody else has ended it
            asyncio.run_coroutine_threadsafe(self._finish(), self.loop)
        self.thread.join(2 * FORK_REST_MS / 1_000)

    async def _finish(self) -> None:
        try:
            under_way = self._patient | self._brisk
            for task in self._patient:
                task.cancel()
            if under_way:  # also those that were broken off: what they hold goes back while the store is open
                await asyncio.wait(under_way, timeout=FORK_REST_MS / 1_000)
            await self.stores.close(FORK_REST_MS / 1_000)
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
"""The one of this process."""

os.register_at_fork(
    before=BACKGROUND.before_fork,
    after_in_parent=BACKGROUND.after_fork,
    after_in_child=BACKGROUND.after_fork,
)
atexit.register(BACKGROUND.rest)
# Exit functions come too late for stores that use executors, which end before them. Executors use this same hook, and
# the last one in goes first; a Python without it leaves what is open to the end of the process.
getattr(threading, "_register_atexit", atexit.register)(BACKGROUND.rest)
