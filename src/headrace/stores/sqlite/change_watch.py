"""Wakes the waiters for jobs or feeds of a file after a write of another process, with one poll for all of them."""

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager

from headrace.model.errors import HeadraceError
from headrace.stores.engine.rows import Tx
from headrace.stores.sqlite.connection import connect_for_polling

POLL_SECONDS = 0.005
"""The pause between two polls of a file for writes of other processes; a poll is a few microseconds of work."""
REST = 4
"""After checks, rest this many times as long as they took: many waiters must not keep a busy file busier."""

Check = Callable[[Tx], bool]
"""Whether the event of a waiter has happened."""
Read = Callable[[Callable[[Tx], list[Hashable]]], Awaitable[list[Hashable]]]


def data_version(connection: sqlite3.Connection) -> int:
    """A number that changes when another connection has written; it costs microseconds."""
    try:
        return int(connection.execute("PRAGMA data_version").fetchone()[0])
    except sqlite3.OperationalError:
        return -1  # busy for a moment: unlike any version, so the waiter checks on the reader's thread, which can wait


class ChangeWatch:
    """One connection that is polled while there are waiters, and one check for all waiters with the same key."""

    def __init__(self, path: str, read: Read) -> None:
        self._path = path
        self._read = read
        self._checks: dict[Hashable, Check] = {}
        self._events: dict[Hashable, dict[asyncio.Event, None]] = {}
        self._poll: tuple[sqlite3.Connection, asyncio.Task[None], int] | None = None
        self._next_checks: dict[Hashable, Check] = {}
        self._next_read: asyncio.Task[list[Hashable]] | None = None

    def __len__(self) -> int:
        return sum(map(len, self._events.values()))

    @contextmanager
    def watching(self, key: Hashable, check: Check, event: asyncio.Event) -> Iterator[None]:
        """Set the event when `check` is true after a write since the block was entered. Waiters with the same key share
        the check of the first."""
        self._checks.setdefault(key, check)
        self._events.setdefault(key, {})[event] = None
        try:
            self._start()
            yield
        finally:
            self._remove(key, event)

    async def is_true(self, key: Hashable, check: Check) -> bool:
        """Run `check` now; all callers of the same turn of the loop share one read."""
        self._next_checks.setdefault(key, check)
        task = self._next_read
        if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
            task = self._next_read = asyncio.create_task(self._run_next_checks())
        return key in await asyncio.shield(task)

    async def _run_next_checks(self) -> list[Hashable]:
        checks, self._next_checks, self._next_read = self._next_checks, {}, None
        return await self._true_keys(checks)

    async def _true_keys(self, checks: dict[Hashable, Check]) -> list[Hashable]:
        return await self._read(lambda tx: [key for key, check in checks.items() if check(tx)])

    def _remove(self, key: Hashable, event: asyncio.Event) -> None:
        self._events[key].pop(event, None)
        if not self._events[key]:
            del self._events[key], self._checks[key]
        if not self._events:
            self._stop()

    def _start(self) -> None:
        if self._poll is not None and self._poll[2] != os.getpid():
            self._poll = None  # the parent's: its loop does not run here
        if self._poll is not None and not self._poll[1].done():
            return
        self._stop()
        connection = connect_for_polling(self._path)
        task = asyncio.create_task(self._run_poll(connection, data_version(connection)))
        self._poll = (connection, task, os.getpid())

    def _stop(self) -> None:
        if self._poll is not None:
            connection, task, _ = self._poll
            self._poll = None
            task.cancel()
            connection.close()

    async def _run_poll(self, connection: sqlite3.Connection, version: int) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(POLL_SECONDS)
            newer = data_version(connection)
            if newer == version:
                continue
            version = newer
            began = loop.time()
            for key in await self._keys_to_wake():
                for event in self._events.get(key, ()):
                    event.set()
            await asyncio.sleep((loop.time() - began) * REST)

    async def _keys_to_wake(self) -> list[Hashable]:
        # Waiters with a set event are about to leave, and new ones check for themselves.
        keys = [key for key, events in self._events.items() if not all(event.is_set() for event in events)]
        try:
            return await self._true_keys({key: self._checks[key] for key in keys})
        except HeadraceError:
            return keys  # each waiter then checks for itself, and its caller gets the error
