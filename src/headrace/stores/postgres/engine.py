"""Runs functions as transactions on the lanes, again where somebody else was faster, and wakes whom they woke."""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import psycopg

from headrace.model.feed import FeedName
from headrace.model.names import Queue, Shard
from headrace.stores.engine.rows import Tx
from headrace.stores.postgres.connection import Connection, ConnectionSettings
from headrace.stores.postgres.connection_threads import ConnectionThreads
from headrace.stores.postgres.errors import AGAIN, TRIES, busy, errors
from headrace.stores.postgres.job_waiters import EndedJobs
from headrace.stores.postgres.journal import Sequencer
from headrace.stores.postgres.lazy_transaction import READING, WRITING, LazyTransaction
from headrace.stores.postgres.notify import PostgresSignals
from headrace.stores.postgres.sql import sql
from headrace.stores.postgres.transaction import PostgresTx, SeenFeeds
from headrace.stores.shared.waiters import Name, name_of

T = TypeVar("T")
READ_TRIES = 100
"""A read that numbers what it sees is undone by every numbering beside it; it is cheap, and nothing was asked of it."""


class PostgresEngine:
    """Writes under row locks, each seeing what was committed before its statement; reads on one snapshot."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self.lanes = ConnectionThreads(settings)
        self.signals = PostgresSignals(settings, self.lanes, self.read)
        self._numberer = Sequencer(self._number)
        self._seen_feeds = SeenFeeds()
        self._thread = threading.local()

    async def read(self, look: Callable[[Tx], T]) -> T:
        return await self.lanes.run(lambda connection: self._tried(connection, look, READING, READ_TRIES))

    async def write(self, act: Callable[[Tx], T]) -> T:
        answer, woken, gathered, ended, changed = await self.lanes.run(lambda connection: self._write(connection, act))
        self.committed(woken, gathered, ended, changed)
        return answer

    def committed(
        self,
        woken: Iterable[Name],
        gathered: Mapping[Shard, int],
        ended: Iterable[EndedJobs] = (),
        changed: Iterable[FeedName] = (),
    ) -> None:
        """Wake whom a transaction woke, and have numbered what it left in inboxes; on the event loop."""
        self.signals.woke(woken, ended, changed)
        self._numberer.gathered(gathered)

    def _write(
        self, connection: Connection, act: Callable[[Tx], T]
    ) -> tuple[T, set[Name], dict[Shard, int], list[EndedJobs], set[FeedName]]:
        def attempt(tx: PostgresTx) -> tuple[T, dict[Shard, int], set[Name]]:
            self._thread.woken, self._thread.ended, self._thread.changed = set(), [], set()
            return act(tx), tx.gathered(), tx.awaited

        answer, gathered, awaited = self._tried(connection, attempt, WRITING, TRIES)
        ended = [EndedJobs(queue, ids, name_of(queue) in awaited) for queue, ids in self._thread.ended]
        return answer, self._thread.woken, gathered, ended, self._thread.changed

    async def _number(self, shard: Shard) -> None:
        """Number what is in the inbox of a shard, unless somebody is at it."""

        def act(tx: PostgresTx) -> bool:
            rows = tx.rows(shard)
            return rows is not None and rows.try_number()

        def run(connection: Connection) -> None:
            if self._tried(connection, act, WRITING, TRIES):
                with errors(self.settings.place):
                    connection.execute(sql("journal_drop_partitions"))

        await self.lanes.run(run)

    def _tried(self, connection: Connection, act: Callable[[PostgresTx], T], begin: bytes, tries: int) -> T:
        last: psycopg.Error | None = None
        for _ in range(tries):
            try:
                with errors(self.settings.place):
                    return self._attempt(connection, act, begin)
            except AGAIN as overtaken:
                last = overtaken
        assert last is not None  # tried at least once
        raise busy(last, self.settings.place) from last

    def _attempt(self, connection: Connection, act: Callable[[PostgresTx], T], begin: bytes) -> T:
        tx = PostgresTx(LazyTransaction(connection, begin), self._seen_feeds)
        try:
            answer = act(tx)
            tx.write_back()
            if tx.feeds and tx.link.writes:
                with tx.link.committing(self.settings.place):
                    tx.feeds.write_back()
        except BaseException:
            tx.link.roll_back()
            raise
        tx.link.commit(self.settings.place)
        return answer

    def wake(self, queues: Iterable[Queue]) -> None:
        """Remember whom to wake once the transaction of this thread is committed."""
        self._thread.woken.update(map(name_of, queues))

    def tell_ended(self, queue: Queue, ids: list[str]) -> None:
        """Remember whom to tell once the transaction of this thread is committed."""
        self._thread.ended.append((queue, ids))

    def tell_changed(self, feed: FeedName) -> None:
        """Remember whose followers to tell once the transaction of this thread is committed."""
        self._thread.changed.add(feed)

    async def close(self) -> None:
        """Finish what was asked, then let go of the connections."""
        await self._numberer.close()
        await self.signals.close()
        await self.lanes.close()
