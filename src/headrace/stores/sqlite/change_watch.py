"""The watch over a file: whether another process has written, asked once for all who wait for jobs or feeds."""

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager

from headrace.model.errors import HeadraceError
from headrace.stores.engine.rows import Tx
from headrace.stores.sqlite.connection import watch

WATCH_SECONDS = 0.005
"""How often a file is asked whether another process has written: a few microseconds of work each time."""
REST = 4
"""After a look, rest this many times as long as it took: many who wait on a busy file must not keep it busier."""

Look = Callable[[Tx], bool]
Read = Callable[[Callable[[Tx], list[Hashable]]], Awaitable[list[Hashable]]]


def data_version(connection: sqlite3.Connection) -> int:
    """A number that changes when another connection has written; it costs microseconds."""
    try:
        return int(connection.execute("PRAGMA data_version").fetchone()[0])
    except sqlite3.OperationalError:
        return -1  # busy for a moment: unlike any version, so the waiter looks on the lane, which can wait


class ChangeWatch:
    """One connection for everybody and one look for all who wait for the same, as long as somebody waits."""

    def __init__(self, path: str, read: Read) -> None:
        self._path = path
        self._read = read
        self._looks: dict[Hashable, Look] = {}
        self._events: dict[Hashable, dict[asyncio.Event, None]] = {}
        self._asking: tuple[sqlite3.Connection, asyncio.Task[None], int] | None = None
        self._entering: dict[Hashable, Look] = {}
        self._entry: asyncio.Task[list[Hashable]] | None = None

    def __len__(self) -> int:
        return sum(map(len, self._events.values()))

    @contextmanager
    def joined(self, what: Hashable, look: Look, event: asyncio.Event) -> Iterator[None]:
        """Set the event when `look` finds something after a write since the block was entered. Those who wait for the
        same `what` share the look of the first."""
        self._looks.setdefault(what, look)
        self._events.setdefault(what, {})[event] = None
        try:
            self._start()
            yield
        finally:
            self._leave(what, event)

    async def finds(self, what: Hashable, look: Look) -> bool:
        """What `look` finds now; all who ask in the same turn of the loop share one read."""
        self._entering.setdefault(what, look)
        if self._entry is None or self._entry.done() or self._entry.get_loop() is not asyncio.get_running_loop():
            self._entry = asyncio.create_task(self._enter())
        return what in await asyncio.shield(self._entry)

    async def _enter(self) -> list[Hashable]:
        looks, self._entering, self._entry = self._entering, {}, None
        return await self._found(looks)

    async def _found(self, looks: dict[Hashable, Look]) -> list[Hashable]:
        return await self._read(lambda tx: [what for what, look in looks.items() if look(tx)])

    def _leave(self, what: Hashable, event: asyncio.Event) -> None:
        self._events[what].pop(event, None)
        if not self._events[what]:
            del self._events[what], self._looks[what]
        if not self._events:
            self._stop()

    def _start(self) -> None:
        if self._asking is not None and self._asking[2] != os.getpid():
            self._asking = None  # the parent's: its loop does not run here
        if self._asking is not None and not self._asking[1].done():
            return
        self._stop()
        connection = watch(self._path)
        task = asyncio.create_task(self._ask(connection, data_version(connection)))
        self._asking = (connection, task, os.getpid())

    def _stop(self) -> None:
        if self._asking is not None:
            connection, task, _ = self._asking
            self._asking = None
            task.cancel()
            connection.close()

    async def _ask(self, connection: sqlite3.Connection, version: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            newer = data_version(connection)
            if newer == version:
                continue
            version = newer
            began = loop.time()
            for what in await self._look():
                for event in self._events.get(what, ()):
                    event.set()
            await asyncio.sleep((loop.time() - began) * REST)

    async def _look(self) -> list[Hashable]:
        # Who was woken is about to leave, and those who come now look by themselves.
        wanted = [what for what, events in self._events.items() if not all(event.is_set() for event in events)]
        try:
            return await self._found({what: self._looks[what] for what in wanted})
        except HeadraceError:
            return wanted  # each looks by itself, and is told what is wrong
