"""Where the heart beats: on a thread with a loop and a store of its own, or on the worker's loop."""

import asyncio
import contextlib
import math
import random
import selectors
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Protocol

from headrace.model.errors import Refused
from headrace.stores.contract.store import Store
from headrace.worker.heart import Heart
from headrace.worker.outage import AWAY

OPEN_SECONDS = 0.2
JOIN_SECONDS = 2.0
WATCH_SECONDS = 0.5
STILL_LOOKS_MAX = 10
"""How often in a row the worker's loop may be found standing still before the heart believes that it will not go on.
One that runs is never still, however long a handler blocks it."""


class Beat(Protocol):
    """A heart that beats somewhere."""

    def start(self) -> None:
        """Let it beat."""

    async def stop(self) -> None:
        """Let it rest, for good."""


class LoopBeat:
    """On the worker's own loop, with its store: for stores that live on one loop, and for simulations."""

    def __init__(self, heart: Heart, store: Store, failed: Callable[[BaseException], None]) -> None:
        self._heart = heart
        self._store = store
        self._failed = failed
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._heart.run(self._store), name="headrace-heart")
        self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


class ThreadBeat:
    """On a thread: handlers that block the worker's loop do not stop it. It does not outlive that loop: a worker that
    was left without its end, in a process that goes on, would keep its leases for ever."""

    def __init__(
        self,
        heart: Heart,
        reopen: Callable[[], Awaitable[Store]],
        failed: Callable[[BaseException], None],
        chance: random.Random,
    ) -> None:
        self._heart = heart
        self._reopen = reopen
        self._failed = failed
        self._chance = chance
        self._of_worker: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._work, name="headrace-heart", daemon=True)
        self._stopping = threading.Event()

    def start(self) -> None:
        self._of_worker = asyncio.get_running_loop()
        self._thread.start()

    def _work(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            try:
                runner = self._runner()
                if runner is not None:
                    with runner:
                        runner.run(self._beat())
            except Exception as error:  # noqa: BLE001 - the worker is told, and ends with it
                self._failed(error)

    def _runner(self) -> asyncio.Runner | None:
        """A runner with its loop, as soon as there are descriptors for one; leases that nobody can extend until then
        end as any others do. None when the worker has ended before."""
        assert self._of_worker is not None  # started
        while not self._stopping.is_set():
            if _can_make_loop():
                with contextlib.suppress(OSError):  # somebody else has taken them meanwhile
                    runner = asyncio.Runner()
                    runner.get_loop()
                    return runner
            self._heart.fence(self._of_worker.time())
            self._stopping.wait(OPEN_SECONDS)
        return None

    async def _beat(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        watching = asyncio.create_task(self._watch())
        fencing = asyncio.create_task(self._keep_fencing(self._loop))
        try:
            store = await self._open()
        finally:
            fencing.cancel()
        try:
            if not self._stopping.is_set():
                await self._heart.run(store)
        finally:
            watching.cancel()
            await store.close()

    async def _watch(self) -> None:
        """Let go of everything when there is no worker any more."""
        assert self._of_worker is not None  # started
        assert self._task is not None
        still = 0
        while still < STILL_LOOKS_MAX and not self._of_worker.is_closed():
            await asyncio.sleep(WATCH_SECONDS)
            still = 0 if self._of_worker.is_running() else still + 1
        self._heart.fence(math.inf)
        # Heard only where the loop was stopped and goes on after all.
        self._failed(
            Refused(
                "loop_stopped",
                "the worker's event loop stood still, and its leases were let go; keep the loop of a worker running",
            )
        )
        self._task.cancel()

    async def _keep_fencing(self, loop: asyncio.AbstractEventLoop) -> None:
        """Leases that nobody can extend yet end as any others do."""
        while True:
            await asyncio.sleep(OPEN_SECONDS)
            self._heart.fence(loop.time())

    async def _open(self) -> Store:
        while True:
            try:
                return await self._reopen()
            except AWAY:
                await asyncio.sleep(OPEN_SECONDS * self._chance.uniform(0.5, 1.5))

    async def stop(self) -> None:
        self._stopping.set()
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # its loop has ended
                self._loop.call_soon_threadsafe(self._task.cancel)
        if self._thread.is_alive():
            await asyncio.get_running_loop().run_in_executor(None, self._thread.join, JOIN_SECONDS)


def _can_make_loop() -> bool:
    # A loop that is made without a free descriptor cannot be closed again: asyncio then writes a traceback to stderr.
    try:
        with selectors.DefaultSelector():
            for each in socket.socketpair():
                each.close()
    except OSError:
        return False
    return True
