"""The watch over a file: whether another process has written, asked once for all who wait for the end of a job."""

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from headrace.model.errors import HeadraceError
from headrace.model.names import Queue
from headrace.stores.calls.ended import has_ended
from headrace.stores.sqlite.connect import watch
from headrace.stores.transitions.rows import Tx

WATCH_SECONDS = 0.005
"""How often a file is asked whether another process has written: a few microseconds of work each time."""
REST = 4
"""After a look, rest this many times as long as it took: many who wait on a busy file must not keep it busier."""

Wanted = tuple[Queue, Sequence[str]]
Read = Callable[[Callable[[Tx], list[asyncio.Event]]], Awaitable[list[asyncio.Event]]]


def data_version(connection: sqlite3.Connection) -> int:
    """A number that changes when another connection has written; it costs microseconds."""
    try:
        return int(connection.execute("PRAGMA data_version").fetchone()[0])
    except sqlite3.OperationalError:
        return -1  # busy for a moment: unlike any version, so the waiter looks on the lane, which can wait


class Watch:
    """One connection and one look for everybody, as long as somebody waits."""

    def __init__(self, path: str, read: Read) -> None:
        self._path = path
        self._read = read
        self._wanted: dict[asyncio.Event, Wanted] = {}
        self._asking: tuple[sqlite3.Connection, asyncio.Task[None], int] | None = None

    def __len__(self) -> int:
        return len(self._wanted)

    @contextmanager
    def joined(self, queue: Queue, ids: Sequence[str], event: asyncio.Event) -> Iterator[None]:
        """Set the event when one of the jobs has ended through a write after the block was entered."""
        self._wanted[event] = (queue, ids)
        try:
            self._start()
            yield
        finally:
            self._wanted.pop(event, None)
            if not self._wanted:
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
            for event in await self._look():
                event.set()
            await asyncio.sleep((loop.time() - began) * REST)

    async def _look(self) -> list[asyncio.Event]:
        wanted = {event: each for event, each in self._wanted.items() if not event.is_set()}
        try:
            return await self._read(lambda tx: [event for event, each in wanted.items() if has_ended(tx, *each)])
        except HeadraceError:
            return list(wanted)  # each looks by itself, and is told what is wrong
