"""The store in a SQLite file."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from headrace.model.clock import Clock, SystemClock
from headrace.model.errors import BadConfig
from headrace.model.feed import FeedCursor, FeedName
from headrace.model.integrity import schema_at
from headrace.model.names import Queue
from headrace.model.results import Health
from headrace.model.validate import bounded_repr
from headrace.stores.engine.dead_letters import EngineDeadLetters
from headrace.stores.engine.feeds import EngineFeeds
from headrace.stores.engine.integrity import EngineIntegrity
from headrace.stores.engine.items import EngineItems
from headrace.stores.engine.journal import EngineJournal
from headrace.stores.engine.queues import EngineQueues
from headrace.stores.engine.reads import EngineReads
from headrace.stores.engine.rows import Tx
from headrace.stores.engine.signals import has_changed, has_ended, has_work, next_later_ms
from headrace.stores.shared.waiters import (
    JobName,
    Name,
    Waiters,
    check_changed,
    check_ended,
    check_wait,
    is_set_within,
    name_of,
    names_of,
)
from headrace.stores.sqlite.change_watch import POLL_SECONDS, ChangeWatch, data_version
from headrace.stores.sqlite.connection import (
    PROFILES,
    PROMISES,
    commit,
    connect,
    connect_for_polling,
    detect_lost_tail,
    errors,
    migrate,
    notes_on,
    schema_version,
)
from headrace.stores.sqlite.connection_thread import ConnectionThread, LoopWriter, Mode, Occupied
from headrace.stores.sqlite.fast_path import NotOnFastPath, SqliteJobs
from headrace.stores.sqlite.sql import migration_names, sql
from headrace.stores.sqlite.transaction import SqliteTx

T = TypeVar("T")
SLOW_CALLS = 8
"""How many calls skip the fast path after it had to give up."""


class Wakeups:
    """The waiters to wake when a transaction is committed."""

    def __init__(self) -> None:
        self.queues: set[Name] = set()
        self.ended: list[JobName] = []
        self.changed: set[FeedName] = set()


class SqliteEngine:
    """Writes in one thread and reads in another, each in a transaction of its own."""

    def __init__(self, path: str, profile: str, clock: Clock, slow_calls: int = SLOW_CALLS) -> None:
        self.path = path
        self._slow_calls = slow_calls
        self.profile = profile
        self._clock = clock
        self.writer = ConnectionThread("headrace-sqlite-writer", lambda: connect(path, profile))
        self.reader = ConnectionThread("headrace-sqlite-reader", lambda: connect(path, profile))
        self.loop_writer = LoopWriter(self.writer, profile)
        self._wakeups = Wakeups()
        self._slow_left = 0
        self._waiters = Waiters[Name]()
        self._ends = Waiters[JobName]()
        self._followers = Waiters[FeedName]()
        self._watch = ChangeWatch(path, self.read)

    async def read(self, query: Callable[[Tx], T]) -> T:
        return await self.reader.run(lambda connection: self._read(connection, query))

    def _read(self, connection: sqlite3.Connection, query: Callable[[Tx], T]) -> T:
        with errors(self.path):
            connection.execute("BEGIN")
            try:
                return query(SqliteTx(connection, self._clock))
            finally:
                connection.execute("ROLLBACK")

    async def write(self, act: Callable[[Tx], T]) -> T:
        return await self._write_on_thread(act, is_short=False)

    async def write_short(self, act: Callable[[Tx], T], rows: int, size: int) -> T:
        """As `write`, for a step of this many rows and bytes: on the event loop if it is short and cannot wait."""
        is_short = self.loop_writer.is_short(rows, size)
        if is_short:
            try:
                answer, wakeups = self.loop_writer.write(
                    lambda connection: self._write(connection, act, Mode.LOOP), rows, size
                )
            except Occupied:
                pass
            else:
                self._wake(wakeups)
                await asyncio.sleep(0)  # a caller that only writes must not starve other tasks
                return answer
        return await self._write_on_thread(act, is_short)

    def count_bytes(self, size: int) -> None:
        """Count payload bytes that were unknown before the step."""
        self.loop_writer.count(0, size)

    async def _write_on_thread(self, act: Callable[[Tx], T], is_short: bool) -> T:
        mode = self.loop_writer.thread_mode(is_short)
        answer, wakeups = await self.writer.run(lambda connection: self._write(connection, act, mode))
        self._wake(wakeups)
        return answer

    def _wake(self, wakeups: "Wakeups") -> None:
        self._waiters.wake(wakeups.queues)
        self._ends.wake(wakeups.ended)
        self._followers.wake(wakeups.changed)

    def _write(self, connection: sqlite3.Connection, act: Callable[[Tx], T], mode: Mode) -> tuple[T, "Wakeups"]:
        with errors(self.path):
            self.loop_writer.set_mode(connection, mode)
            try:
                answer = self._attempt(connection, act, fast=self._slow_left == 0)
                self._slow_left = max(self._slow_left - 1, 0)
            except NotOnFastPath:
                # The next calls are likely to give up as well: spare them the attempt.
                self._slow_left = self._slow_calls
                answer = self._attempt(connection, act, fast=False)
        return answer, self._wakeups

    def _begin(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as locked:
            if self.loop_writer.is_on_loop:
                raise Occupied from locked
            raise

    def _attempt(self, connection: sqlite3.Connection, act: Callable[[Tx], T], fast: bool) -> T:
        self._wakeups = Wakeups()
        self._begin(connection)
        try:
            tx = SqliteTx(connection, self._clock, fast)
            answer = act(tx)
            tx.write_back()
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        commit(connection, self.path)
        return answer

    def wake(self, queues: Iterable[Queue]) -> None:
        """Wake the waiters for work on these queues when the transaction is committed."""
        self._wakeups.queues.update(map(name_of, queues))

    def notify_ended(self, queue: Queue, ids: list[str]) -> None:
        """Wake the waiters for the end of these jobs when the transaction is committed; later waiters see the end."""
        if len(self._ends):
            self._wakeups.ended += names_of(queue, ids)

    def notify_changed(self, feed: FeedName) -> None:
        """Wake the followers of a feed when the transaction is committed."""
        self._wakeups.changed.add(feed)

    async def wait(self, queues: Sequence[Queue], timeout_ms: int) -> bool:
        """Return True when there may be work, False after the timeout.

        Writes of this process set an event; writes of others change `PRAGMA data_version`, which costs microseconds.
        """
        names = check_wait(queues, timeout_ms)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        has_read = False
        known_ms: int | None = None
        with self._waiters.watching(names) as event, closing(connect_for_polling(self.path)) as watcher:
            while True:
                version = data_version(watcher)
                ready, later_ms = await self.read(lambda tx: (has_work(tx, queues), next_later_ms(tx, queues)))
                # Another process may have enqueued a job for an earlier time than the caller waits for.
                earlier = later_ms is not None and (known_ms is None or later_ms < known_ms)
                if ready or (earlier and has_read):
                    return True
                has_read, known_ms = True, later_ms
                while not event.is_set() and data_version(watcher) == version:
                    left = deadline - loop.time()
                    if left <= 0:
                        return False
                    await is_set_within(event, min(left, POLL_SECONDS))
                if event.is_set():
                    return True

    async def ended(self, queue: Queue, ids: Sequence[str], timeout_ms: int) -> bool:
        """Return True when one of the jobs may have ended, False after the timeout."""
        check_ended(queue, ids, timeout_ms)

        def check(tx: Tx) -> bool:
            return has_ended(tx, queue, ids)

        with self._ends.watching(names_of(queue, ids)) as event, self._watch.watching((queue, *ids), check, event):
            return await self.read(check) or await is_set_within(event, timeout_ms / 1000)

    async def changed(self, feed: FeedName, after: FeedCursor | None, timeout_ms: int) -> bool:
        """Return True when a feed may have changed, False after the timeout."""
        check_changed(feed, after, timeout_ms)

        def check(tx: Tx) -> bool:
            return has_changed(tx, feed, after)

        key = (feed, after)
        with self._followers.watching([feed]) as event, self._watch.watching(key, check, event):
            return await self._watch.is_true(key, check) or await is_set_within(event, timeout_ms / 1000)


class SqliteStore:
    """A store in one file: durable by default, shared by the processes and threads of one machine."""

    is_remote = False

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine
        self.jobs = SqliteJobs(engine)
        self.dead = EngineDeadLetters(engine)
        self.queues = EngineQueues(engine)
        self.reads = EngineReads(engine)
        self.journal = EngineJournal(engine)
        self.signals = engine
        self.integrity = EngineIntegrity(engine)
        self.feeds = EngineFeeds(engine)
        self.items = EngineItems(engine)

    @staticmethod
    async def open(
        path: str,
        *,
        profile: str = "durable",
        clock: Clock | None = None,
        boot_id: str | None = None,
        slow_calls: int = SLOW_CALLS,
    ) -> "SqliteStore":
        """Open the file, creating it when missing. `boot_id` tells restarts of the machine apart; tests pass one."""
        if profile not in PROFILES:
            raise BadConfig(
                f"SQLite has no durability profile {bounded_repr(profile)}; known profiles: {', '.join(PROFILES)}"
            )
        clock = clock or SystemClock()
        engine = SqliteEngine(path, profile, clock, slow_calls)

        def prepare(connection: sqlite3.Connection) -> None:
            migrate(connection, path)
            detect_lost_tail(
                connection, path, boot_id_of_machine() if boot_id is None else boot_id, profile, clock.now_ms()
            )

        try:
            await engine.writer.run(prepare)
        except BaseException:
            await engine.writer.close()
            raise
        return SqliteStore(engine)

    async def now_ms(self) -> int:
        return await self._engine.read(lambda tx: tx.now_ms())

    async def health(self) -> Health:
        path, profile = self._engine.path, self._engine.profile

        def health(connection: sqlite3.Connection) -> Health:
            with errors(path):
                epoch = int(connection.execute(sql("store_highest_epoch")).fetchone()[0])
                schema = schema_at(schema_version(connection), migration_names())
            version = sqlite3.sqlite_version
            notes = notes_on(path, profile)
            return Health("sqlite", profile, PROMISES[profile], version, 0, epoch, f"SQLite {version}", schema, notes)

        return await self._engine.reader.run(health)

    async def close(self) -> None:
        await self._engine.writer.close()
        await self._engine.reader.close()


def boot_id_of_machine() -> str:
    """The id of this boot of the machine; empty where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return ""
