"""Enqueues inside a caller's own transaction: its commit creates the jobs, its rollback discards them."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from headrace.model.errors import Refused, StoreUnavailable
from headrace.model.job import Job
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue, Shard
from headrace.model.results import Enqueued
from headrace.model.validate import check_batch, check_time
from headrace.stores.engine.rows import Tx
from headrace.stores.engine.step import Step, at
from headrace.stores.postgres.connection import RETRYABLE, TRIES, busy_error, register_dumpers, translate_errors
from headrace.stores.postgres.engine import PostgresEngine
from headrace.stores.postgres.jobs import PostgresJobs
from headrace.stores.postgres.notify import channel_of, payload_of
from headrace.stores.postgres.sql import LazyTransaction, sql
from headrace.stores.postgres.transaction import PostgresTx
from headrace.stores.shared.waiters import Name, name_of

CallerConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]
NO_SENDER = ""
"""The sender of wake-ups that every process takes, also this one."""


class CallerRows:
    """The rows of a statement, fetched already."""

    def __init__(self, rows: list[tuple[Any, ...]], rowcount: int) -> None:
        self._rows = rows
        self.rowcount = rowcount

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows."""
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """The first row."""
        return self._rows[0] if self._rows else None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)


Run = Callable[[bytes, Sequence[object]], CallerRows]
"""Runs a statement on the caller's connection, from a thread that may wait."""


class CallerTransaction(LazyTransaction):
    """Runs statements in a transaction that the caller has begun and will end."""

    def __init__(self, run: Run) -> None:
        self.writes = True
        self._run = run

    def run(self, name: str, *args: object) -> Any:
        return self._run(sql(name), args)

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        yield


class TransactionalJobs(PostgresJobs):
    """The transitions of enqueue, which collect the queues to wake."""

    def __init__(self, engine: PostgresEngine) -> None:
        super().__init__(engine)
        self.woken: set[Name] = set()

    def enqueue_batch(self, transaction: LazyTransaction, jobs: Sequence[Job], now_ms: int | None) -> list[Enqueued]:
        """Enqueue jobs and write their rows."""
        self.woken = set()
        tx = PostgresTx(transaction)
        answers = at(now_ms, lambda tx, now_ms: self._enqueue(tx, jobs, now_ms))(tx)
        tx.write_back()
        return answers

    def _finish(self, step: Step) -> None:
        self.woken.update(map(name_of, step.finish()))


async def enqueue_on(
    engine: PostgresEngine, connection: CallerConnection, jobs: Sequence[Job], now_ms: int | None
) -> list[Enqueued]:
    """Enqueue on the caller's connection, in the transaction that it is in or that its next statement begins."""
    check_batch("jobs", len(jobs), BATCH_MAX)
    if now_ms is not None:
        check_time("now_ms", now_ms)
    if connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE:
        raise Refused(
            "no_transaction",
            "the connection commits every statement by itself; begin a transaction for the jobs to be part of",
        )
    # In a separate transaction: otherwise other users of a new queue would wait for the caller's commit.
    await engine.write(lambda tx: _create_queues({job.queue for job in jobs}, tx))
    run = _runner(connection)
    work = asyncio.ensure_future(asyncio.to_thread(_enqueue, engine, run, jobs, now_ms))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])  # the caller gets its connection back when no thread uses it any more
        raise


def _create_queues(queues: set[Queue], tx: Tx) -> None:
    for queue in queues:
        if tx.shards_of(queue) in (None, queue.shards):
            tx.rows(Shard(queue, 0), create=True)


def _runner(connection: CallerConnection) -> Run:
    if isinstance(connection, psycopg.Connection):

        def run(query: bytes, args: Sequence[object]) -> CallerRows:
            with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
                register_dumpers(cursor)
                cursor.execute(query, args, binary=True)
                return CallerRows(cursor.fetchall() if cursor.description else [], cursor.rowcount)

        return run

    async def run_async(query: bytes, args: Sequence[object]) -> CallerRows:
        async with psycopg.AsyncCursor(connection, row_factory=tuple_row) as cursor:
            register_dumpers(cursor)
            await cursor.execute(query, args, binary=True)
            return CallerRows(await cursor.fetchall() if cursor.description else [], cursor.rowcount)

    loop = asyncio.get_running_loop()
    return lambda query, args: asyncio.run_coroutine_threadsafe(run_async(query, args), loop).result()


def _enqueue(engine: PostgresEngine, run: Run, jobs: Sequence[Job], now_ms: int | None) -> list[Enqueued]:
    settings = engine.settings
    try:
        with translate_errors(settings.address):
            [(path,)] = run(sql("caller_tx_enter"), (settings.schema,)).fetchall()
            transactional_jobs = TransactionalJobs(engine)
            answers = _run_in_savepoint(
                settings.address, run, lambda: transactional_jobs.enqueue_batch(CallerTransaction(run), jobs, now_ms)
            )
            payloads = [payload_of(NO_SENDER, name) for name in sorted(transactional_jobs.woken)]
            run(sql("caller_tx_leave"), (path, channel_of(settings.schema), payloads))
    except RETRYABLE as undone:
        raise StoreUnavailable(
            f"PostgreSQL at {settings.address} has undone the transaction ({undone.diag.message_primary}); run it again"
        ) from undone
    return answers


def _run_in_savepoint(address: str, run: Run, act: Callable[[], list[Enqueued]]) -> list[Enqueued]:
    """Run inside a savepoint, again where another transaction has inserted the same id meanwhile."""
    last: pg.UniqueViolation | None = None
    for _ in range(TRIES):
        run(b"SAVEPOINT headrace", ())
        try:
            answers = act()
        except pg.UniqueViolation as conflict:
            last = conflict
            run(b"ROLLBACK TO SAVEPOINT headrace", ())
        except Refused:
            run(b"ROLLBACK TO SAVEPOINT headrace", ())
            raise
        else:
            run(b"RELEASE SAVEPOINT headrace", ())
            return answers
    assert last is not None  # tried at least once
    raise busy_error(last, address) from last
