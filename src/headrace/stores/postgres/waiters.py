"""Checks for waiters whether jobs have ended or feeds have changed, and announces waiters to other processes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import psycopg

from headrace.model.errors import HeadraceError
from headrace.model.feed import FeedCursor, FeedName
from headrace.model.names import Queue
from headrace.stores.engine.rows import Tx
from headrace.stores.engine.signals import has_changed
from headrace.stores.postgres.connection import Connection, ConnectionThreads
from headrace.stores.postgres.sql import sql
from headrace.stores.postgres.transaction import PostgresTx
from headrace.stores.shared.sharding import by_shard
from headrace.stores.shared.waiters import Name, retrieve_error

T = TypeVar("T")
FeedPosition = tuple[FeedName, FeedCursor | None]
AWAIT_MS = 20_000
"""How long calls continue to notify after the last waiter has left."""
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


class ReadStep(Protocol):
    """Runs a function that only reads."""

    def __call__(self, poll: Callable[[Tx], T], /) -> Awaitable[T]: ...


class FeedPolls:
    """Polls feeds for all waiters at once. A caller during a poll is answered by the next one, which sees every change
    before the call; callers name feeds, so this is no `SingleFlight`: a poll has to know all of them first."""

    def __init__(self, read: ReadStep) -> None:
        self._read = read
        self._pending: dict[FeedPosition, None] = {}
        self._next: asyncio.Task[dict[FeedPosition, bool]] | None = None
        self._under_way: asyncio.Task[dict[FeedPosition, bool]] | None = None

    async def has_changed(self, feed: FeedName, after: FeedCursor | None) -> bool:
        """Whether a reader at `after` has something to read."""
        position = (feed, after)
        self._pending[position] = None
        if self._next is None:
            self._next = asyncio.create_task(self._poll(self._under_way))
            self._next.add_done_callback(retrieve_error)
        poll = self._next
        await asyncio.wait([poll])  # a cancelled caller leaves the poll to the others
        return poll.result()[position]

    async def _poll(self, earlier: asyncio.Task[dict[FeedPosition, bool]] | None) -> dict[FeedPosition, bool]:
        if earlier is not None:
            await asyncio.wait([earlier])
        pending, self._pending = list(self._pending), {}
        self._under_way, self._next = self._next, None
        return await self._read(lambda tx: _check(tx, pending))


def _check(tx: Tx, pending: list[FeedPosition]) -> dict[FeedPosition, bool]:
    assert isinstance(tx, PostgresTx)
    tx.feeds.read(list(dict.fromkeys(feed for feed, _ in pending)))
    return {(feed, after): has_changed(tx, feed, after) for feed, after in pending}
