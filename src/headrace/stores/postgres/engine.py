"""Runs functions as transactions, again after a conflict, and notifies waiters after the commit."""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import psycopg

from headrace.model.feed import FeedName
from headrace.model.names import Queue, Shard
from headrace.stores.engine.rows import Tx
from headrace.stores.postgres.connection import (
    RETRYABLE,
    TRIES,
    Connection,
    ConnectionSettings,
    ConnectionThreads,
    busy_error,
    translate_errors,
)
from headrace.stores.postgres.journal import Sequencer
from headrace.stores.postgres.notify import PostgresSignals
from headrace.stores.postgres.sql import READING, WRITING, LazyTransaction, sql
from headrace.stores.postgres.transaction import FeedCache, PostgresTx
from headrace.stores.postgres.waiters import EndedJobs
from headrace.stores.shared.waiters import Name, name_of

T = TypeVar("T")
READ_TRIES = 100
"""A read that numbers inboxes conflicts with every numbering beside it; it is cheap, and changes nothing by itself."""


class PostgresEngine:
    """Writes under row locks, where each statement sees earlier commits; reads on one snapshot."""

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self.threads = ConnectionThreads(settings)
        self.signals = PostgresSignals(settings, self.threads, self.read)
        self._sequencer = Sequencer(self._number)
        self._feed_cache = FeedCache()
        self._thread = threading.local()

    async def read(self, query: Callable[[Tx], T]) -> T:
        return await self.threads.run(lambda connection: self._run_retrying(connection, query, READING, READ_TRIES))

    async def write(self, act: Callable[[Tx], T]) -> T:
        answer, woken, inbox_sizes, ended, changed = await self.threads.run(
            lambda connection: self._write(connection, act)
        )
        self.after_commit(woken, inbox_sizes, ended, changed)
        return answer

    def after_commit(
        self,
        woken: Iterable[Name],
        inbox_sizes: Mapping[Shard, int],
        ended: Iterable[EndedJobs] = (),
        changed: Iterable[FeedName] = (),
    ) -> None:
        """Wake the waiters of a committed transaction, and have large inboxes numbered; on the event loop."""
        self.signals.notify(woken, ended, changed)
        self._sequencer.schedule(inbox_sizes)

    def _write(
        self, connection: Connection, act: Callable[[Tx], T]
    ) -> tuple[T, set[Name], dict[Shard, int], list[EndedJobs], set[FeedName]]:
        def attempt(tx: PostgresTx) -> tuple[T, dict[Shard, int], set[Name]]:
            self._thread.woken, self._thread.ended, self._thread.changed = set(), [], set()
            return act(tx), tx.inbox_sizes(), tx.awaited_queues

        answer, inbox_sizes, awaited_queues = self._run_retrying(connection, attempt, WRITING, TRIES)
        ended = [EndedJobs(queue, ids, name_of(queue) in awaited_queues) for queue, ids in self._thread.ended]
        return answer, self._thread.woken, inbox_sizes, ended, self._thread.changed

    async def _number(self, shard: Shard) -> None:
        """Number the inbox of a shard, unless another transaction is numbering it."""

        def act(tx: PostgresTx) -> bool:
            rows = tx.rows(shard)
            return rows is not None and rows.try_number()

        def run(connection: Connection) -> None:
            if self._run_retrying(connection, act, WRITING, TRIES):
                with translate_errors(self.settings.address):
                    connection.execute(sql("journal_drop_partitions"))

        await self.threads.run(run)

    def _run_retrying(self, connection: Connection, act: Callable[[PostgresTx], T], begin: bytes, tries: int) -> T:
        last: psycopg.Error | None = None
        for _ in range(tries):
            try:
                with translate_errors(self.settings.address):
                    return self._run_once(connection, act, begin)
            except RETRYABLE as conflict:
                last = conflict
        assert last is not None  # tried at least once
        raise busy_error(last, self.settings.address) from last

    def _run_once(self, connection: Connection, act: Callable[[PostgresTx], T], begin: bytes) -> T:
        tx = PostgresTx(LazyTransaction(connection, begin), self._feed_cache)
        try:
            answer = act(tx)
            tx.write_back()
            if tx.feeds and tx.transaction.writes:
                with tx.transaction.commit_pipeline(self.settings.address):
                    tx.feeds.write_back()
        except BaseException:
            tx.transaction.roll_back()
            raise
        tx.transaction.commit(self.settings.address)
        return answer

    def wake(self, queues: Iterable[Queue]) -> None:
        """Wake waiters of queues once the transaction of this thread is committed."""
        self._thread.woken.update(map(name_of, queues))

    def notify_ended(self, queue: Queue, ids: list[str]) -> None:
        """Notify waiters of ended jobs once the transaction of this thread is committed."""
        self._thread.ended.append((queue, ids))

    def notify_changed(self, feed: FeedName) -> None:
        """Notify followers of a feed once the transaction of this thread is committed."""
        self._thread.changed.add(feed)

    async def close(self) -> None:
        """Finish the calls under way, then close the connections."""
        await self._sequencer.close()
        await self.signals.close()
        await self.threads.close()
