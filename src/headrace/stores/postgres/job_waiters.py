"""Waits for the ends of jobs: a waiter announces itself in the queue's row, and calls that end jobs then NOTIFY."""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import psycopg

from headrace.model.errors import HeadraceError
from headrace.model.names import Queue
from headrace.stores.engine.rows import Tx
from headrace.stores.postgres.connection import Connection
from headrace.stores.postgres.connection_threads import ConnectionThreads
from headrace.stores.postgres.sql import sql
from headrace.stores.postgres.transaction import PostgresTx
from headrace.stores.shared.sharding import by_shard
from headrace.stores.shared.waiters import Name

AWAIT_MS = 20_000
"""How long calls go on to notify after the last waiter has gone."""
AWAIT_LEFT_MS = AWAIT_MS // 2
"""An announcement with less left is renewed: one process in ten seconds writes, however many wait."""
ANNOUNCED_SECONDS = AWAIT_MS / 4_000
"""How long a process need not announce again; with its sleep, still less than what is left."""
PAYLOAD_BYTES_MAX = 7_000
"""PostgreSQL takes payloads of less than 8,000 bytes, and names need some of them."""


class EndedJobs(NamedTuple):
    """Jobs that a transaction has ended."""

    queue: Queue
    ids: list[str]
    is_awaited: bool
    """Whether another process may wait for them."""


def pack_ids(ids: Sequence[str]) -> Iterator[str]:
    """The ids as they are sent, in texts of bounded size; ids are printable, so line ends separate them."""
    part, size = list[str](), 0
    for id in ids:
        bytes_of_id = len(id.encode()) + 1
        if part and size + bytes_of_id > PAYLOAD_BYTES_MAX:
            yield "\n".join(part)
            part, size = [], 0
        part.append(id)
        size += bytes_of_id
    if part:
        yield "\n".join(part)


def has_ended(tx: Tx, queue: Queue, ids: Sequence[str]) -> bool:
    """Whether one of the jobs neither waits nor runs, or has a finished job that is kept; in one statement."""
    assert isinstance(tx, PostgresTx)
    shard_ids: list[int] = []
    wanted: list[str] = []
    for shard, picks in by_shard(ids, lambda id: (queue, id)):
        rows = tx.rows(shard)
        if rows is None:
            return True
        shard_ids += [rows.shard_id] * len(picks)
        wanted += [ids[index] for index in picks]
    return bool(tx.transaction.run("job_ended", shard_ids, wanted).fetchall()[0][0])


class EndAnnouncements:
    """The queues for which this process has announced that it waits for ends of jobs."""

    def __init__(self, threads: ConnectionThreads) -> None:
        self._threads = threads
        self._announced_until: dict[Name, float] = {}
        self._announcing: dict[Name, asyncio.Task[None]] = {}

    async def announce(self, name: Name) -> bool:
        """Have calls notify ends of a queue's jobs; returns whether that was not announced lately."""
        now = asyncio.get_running_loop().time()
        if self._announced_until.get(name, now) > now:
            return False
        self._announced_until = {each: until for each, until in self._announced_until.items() if until > now}
        task = self._announcing.get(name)
        if task is None:
            task = self._announcing[name] = asyncio.create_task(self._announce(name, now + ANNOUNCED_SECONDS))
            task.add_done_callback(lambda _: self._announcing.pop(name, None))
        await asyncio.wait({task})
        return True

    async def _announce(self, name: Name, until: float) -> None:
        # A user that may only read cannot announce; its waiters poll.
        with contextlib.suppress(HeadraceError, psycopg.Error):
            await self._threads.run(lambda connection: _announce_on(connection, name))
            self._announced_until[name] = until


def _announce_on(connection: Connection, name: Name) -> None:
    connection.execute(sql("queue_await_ends"), (AWAIT_MS, *name, AWAIT_LEFT_MS))
