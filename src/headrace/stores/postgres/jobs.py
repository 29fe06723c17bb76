"""The jobs protocol on PostgreSQL: fast paths first, and the transitions where a fast path gives up.

Whatever is unusual (a known id, a key, a lost lease, a blocked job, a job too late or too large, a new configuration)
raises `NotFastPath`; its transaction is rolled back and the call runs again through the transitions, which decide
everything. So a fast path may only be right or give up."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import psycopg

from headrace.model.claim import Claim, ClaimRequest, Claims, Settlement, check_settlements
from headrace.model.job import Job
from headrace.model.limits import BATCH_MAX, PROMOTIONS_PER_CALL_MAX
from headrace.model.names import Queue, Shard
from headrace.model.policy import NO_POLICY
from headrace.model.results import Enqueued, Settled, Turned
from headrace.model.validate import check_batch, check_time
from headrace.stores.engine.jobs import EngineJobs
from headrace.stores.engine.rows import Tx
from headrace.stores.engine.step import Step, order_key_of
from headrace.stores.postgres.connection import RETRYABLE, Connection, roll_back, translate_errors
from headrace.stores.postgres.engine import PostgresEngine
from headrace.stores.postgres.fast_claim import ClaimTry
from headrace.stores.postgres.fast_enqueue import (
    DueShard,
    JobsDue,
    NotFastPath,
    NotPlain,
    QueueCache,
    QueueMissing,
    enqueue_new,
    prepare,
)
from headrace.stores.postgres.fast_settle import PlainTry, SettleTry
from headrace.stores.postgres.rows import PostgresRows
from headrace.stores.postgres.sql import WRITING, LazyTransaction, sql
from headrace.stores.postgres.transaction import PostgresTx
from headrace.stores.shared.sharding import by_shard
from headrace.stores.shared.validate import naming
from headrace.stores.shared.waiters import name_of

T = TypeVar("T")
Item = TypeVar("Item")
Answer = TypeVar("Answer")
SLOW_CALLS = 8
"""How many calls go straight to the transitions after a fast path gave up."""
UNUSUAL = "HR001"
"""The error of our functions in the server where a fast path has to give up."""
PLAIN = "plain"
"""The kind of call under which failed attempts to settle in one statement are counted."""
NOT_PLAIN = "HR002"
"""The error of settle_plain where settle_drop and settle_done have to decide."""


class PostgresJobs(EngineJobs):
    """Locks in the order of shard and id, so that calls on the same jobs wait for each other and never in a ring."""

    def _enqueue(self, tx: Tx, jobs: Sequence[Job], now_ms: int) -> list[Enqueued]:
        assert isinstance(tx, PostgresTx)
        groups = list(by_shard(jobs, lambda job: (job.queue, job.id)))
        tx.lock([(shard, [jobs[index].id for index in picks]) for shard, picks in groups], new_numbers=len(jobs))
        for shard, picks in groups:
            keys = [(jobs[index].id, key) for index in picks if (key := jobs[index].idempotency_key) is not None]
            if keys and tx.shards_of(shard.queue) == shard.queue.shards:
                rows = tx.rows(shard)
                if rows is not None:
                    rows.load_keys(keys)
        return super()._enqueue(tx, jobs, now_ms)

    def _claim(self, tx: Tx, request: ClaimRequest, now_ms: int) -> Claims:
        assert isinstance(tx, PostgresTx)
        tx.read_for_claim(list(dict.fromkeys(request.queues)), request.worker)
        return super()._claim(tx, request, now_ms)

    def _hand_out(self, step: Step, request: ClaimRequest, limit: int, bytes_left: int) -> list[Claim]:
        rows = step.rows
        assert isinstance(rows, PostgresRows)
        rows.locks_ready = True
        try:
            return super()._hand_out(step, request, limit, bytes_left)
        finally:
            rows.locks_ready = False

    def _batch(
        self,
        tx: Tx,
        items: Sequence[Item],
        address: Callable[[Item], tuple[Queue, str]],
        act: Callable[[Step, list[Item]], list[Answer]],
        unknown: Callable[[Item], Answer],
        now_ms: int,
    ) -> list[Answer]:
        assert isinstance(tx, PostgresTx)
        groups = by_shard(items, address)
        tx.lock([(shard, [address(items[index])[1] for index in picks]) for shard, picks in groups])
        return super()._batch(tx, items, address, act, unknown, now_ms)


class FastJobs(PostgresJobs):
    """Tries the fast path first, for each kind of call: after an unusual call the next one is likely to be unusual too,
    so the next calls of its kind skip the attempt."""

    def __init__(self, engine: PostgresEngine, slow_calls: int = SLOW_CALLS) -> None:
        super().__init__(engine)
        self._postgres = engine
        self._slow_calls = slow_calls
        self._slow_left: dict[str, int] = {}
        self._queues = QueueCache()
        self._was_idle = False
        self._due: DueShard | None = None

    async def enqueue(self, jobs: Sequence[Job], *, now_ms: int | None = None) -> list[Enqueued]:
        check_batch("jobs", len(jobs), BATCH_MAX)
        _check(now_ms)
        with naming(job.id for job in jobs):
            inbox_sizes = await self._try(
                "enqueue", jobs, lambda connection: self._enqueue_new(connection, jobs, now_ms)
            )
        if inbox_sizes is None:
            return await super().enqueue(jobs, now_ms=now_ms)
        self._postgres.after_commit({name_of(shard.queue) for shard in inbox_sizes}, inbox_sizes)
        return [Enqueued(job.id, "created") for job in jobs]

    def _enqueue_new(self, connection: Connection, jobs: Sequence[Job], now_ms: int | None) -> dict[Shard, int]:
        address = self._postgres.settings.address
        with translate_errors(address):
            calls = prepare(connection, self._queues, jobs, now_ms)
        with translate_errors(address, sent=True):
            return enqueue_new(connection, calls)

    async def claim(self, request: ClaimRequest, *, now_ms: int | None = None) -> Claims:
        _check(now_ms)
        claims = await self._try(
            "claim",
            request.queues,
            lambda connection: self._promoting(
                connection, now_ms, lambda promoted: self._take(connection, request, now_ms, promoted)
            ),
        )
        if claims is None:
            claims = await super().claim(request, now_ms=now_ms)
        self._was_idle = not claims.items
        return claims

    def _promoting(self, connection: Connection, now_ms: int | None, act: Callable[[set[int]], T]) -> T:
        """Run an attempt to claim, and repeat it after each shard whose due jobs had to be promoted first. A promotion
        is a separate transaction, as if another claim had made it just before."""
        promoted: set[int] = set()
        due = self._due
        while True:
            if due is not None:
                self._promote(connection, due, now_ms)
                promoted.add(due.shard_id)
            try:
                return act(promoted)
            except JobsDue as found:
                if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                    roll_back(connection)
                due = found.shard

    def _promote(self, connection: Connection, due: DueShard, now_ms: int | None) -> None:
        known = due.known
        first_order_key = order_key_of(known.config.priority_of(NO_POLICY), 0)
        args = known.queue_id, known.text, due.shard_id, now_ms, first_order_key, PROMOTIONS_PER_CALL_MAX
        self._due = None
        with translate_errors(self._postgres.settings.address):
            [(promoted,)] = connection.execute(sql("promote_plain"), args, binary=True).fetchall()
        if promoted == PROMOTIONS_PER_CALL_MAX:  # there may be more, which the next call promotes at once
            self._due = due

    def _take(self, connection: Connection, request: ClaimRequest, now_ms: int | None, promoted: set[int]) -> Claims:
        address = self._postgres.settings.address
        with translate_errors(address):
            if self._was_idle:
                probe = ClaimTry(connection, self._queues, request, now_ms)
                probe.read_shards(lambda name, *args: connection.execute(sql(name), args, binary=True))
                idle = probe.idle()
                if idle is not None:
                    return idle
            transaction = LazyTransaction(connection, WRITING)
            claiming = ClaimTry(connection, self._queues, request, now_ms, promoted)
            with transaction.pipeline():
                claiming.send(transaction)
            claiming.read(transaction)
        if claiming.is_empty:
            roll_back(connection)
        else:
            self._commit(connection, transaction, claiming)
        return claiming.answer()

    async def settle(self, settlements: Sequence[Settlement], *, now_ms: int | None = None) -> list[Settled]:
        check_settlements(settlements)
        _check(now_ms)
        with naming(each.lease.id for each in settlements):
            settling = await self._try(
                "settle", settlements, lambda connection: self._end(connection, settlements, now_ms)
            )
        if settling is None:
            return await super().settle(settlements, now_ms=now_ms)
        self._postgres.after_commit((), settling.inbox_sizes(), settling.ended_jobs())
        return settling.answers()

    def _end(
        self, connection: Connection, settlements: Sequence[Settlement], now_ms: int | None
    ) -> PlainTry | SettleTry:
        address = self._postgres.settings.address
        with translate_errors(address):
            plain = self._plain(connection, settlements, now_ms)
        if plain is not None:
            try:
                with translate_errors(address, sent=True), _plain_only():
                    plain.settle(connection)
            except NotPlain:
                self._slow_left[PLAIN] = self._slow_calls
            else:
                return plain
        with translate_errors(address):
            transaction, settling = (
                LazyTransaction(connection, WRITING),
                SettleTry(connection, self._queues, settlements, now_ms),
            )
            with transaction.pipeline():
                settling.send(transaction)
            settling.read()
        self._commit(connection, transaction, settling)
        return settling

    def _plain(self, connection: Connection, settlements: Sequence[Settlement], now_ms: int | None) -> PlainTry | None:
        """The attempt in one statement, None when it is skipped."""
        left = self._slow_left.get(PLAIN, 0)
        self._slow_left[PLAIN] = max(left - 1, 0)
        if left:
            return None
        try:
            return PlainTry(connection, self._queues, settlements, now_ms)
        except NotPlain:
            return None

    async def turn(
        self, settlements: Sequence[Settlement], request: ClaimRequest, *, now_ms: int | None = None
    ) -> Turned:
        check_settlements(settlements)
        _check(now_ms)
        with naming(each.lease.id for each in settlements):
            found = await self._try(
                "turn",
                settlements,
                lambda connection: self._promoting(
                    connection,
                    now_ms,
                    lambda promoted: self._turn(connection, settlements, request, now_ms, promoted),
                ),
            )
        if found is None:
            return await super().turn(settlements, request, now_ms=now_ms)
        settling, claims = found
        self._postgres.after_commit((), settling.inbox_sizes(), settling.ended_jobs())
        return Turned(settling.answers(), claims.items, claims.next_at_ms, claims.now_ms)

    def _turn(
        self,
        connection: Connection,
        settlements: Sequence[Settlement],
        request: ClaimRequest,
        now_ms: int | None,
        promoted: set[int],
    ) -> tuple[PlainTry | SettleTry, Claims]:
        with translate_errors(self._postgres.settings.address):
            plain = self._plain(connection, settlements, now_ms)
        if plain is not None:
            try:
                return plain, self._turn_by(connection, plain, request, now_ms, promoted)
            except NotPlain:
                roll_back(connection)
                self._slow_left[PLAIN] = self._slow_calls
        with translate_errors(self._postgres.settings.address):
            settling = SettleTry(connection, self._queues, settlements, now_ms)
        return settling, self._turn_by(connection, settling, request, now_ms, promoted)

    def _turn_by(
        self,
        connection: Connection,
        settling: PlainTry | SettleTry,
        request: ClaimRequest,
        now_ms: int | None,
        promoted: set[int],
    ) -> Claims:
        with translate_errors(self._postgres.settings.address):
            transaction = LazyTransaction(connection, WRITING)
            claiming = ClaimTry(connection, self._queues, request, now_ms, promoted)
            with _plain_only(), transaction.pipeline():
                settling.send(transaction)
                if settling.is_complete:
                    claiming.send(transaction)
            settling.read()
            if not settling.is_complete:
                with transaction.pipeline():
                    settling.write(transaction)
                    claiming.send(transaction, settling.now_ms)
            claiming.read(transaction)
        self._commit(connection, transaction, claiming)
        return claiming.answer()

    def _commit(self, connection: Connection, transaction: LazyTransaction, tried: ClaimTry | SettleTry) -> None:
        with translate_errors(self._postgres.settings.address, sent=True), transaction.pipeline():
            tried.write(transaction)
            connection.execute("COMMIT", prepare=False)

    async def _try(self, kind: str, items: Sequence[object], act: Callable[[Connection], T]) -> T | None:
        """The answer of the fast path, None when it does not apply."""
        left = self._slow_left.get(kind, 0)
        self._slow_left[kind] = max(left - 1, 0)
        if left or not items:
            return None
        try:
            return await self._postgres.threads.run(lambda connection: _run_attempt(connection, act))
        except QueueMissing:
            return None
        except NotFastPath:
            self._queues.forget()
            self._slow_left[kind] = self._slow_calls
            return None


def _run_attempt(connection: Connection, act: Callable[[Connection], T]) -> T:
    """Run an attempt; roll back when it gives up."""
    try:
        return act(connection)
    except BaseException as error:
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            roll_back(connection)
        cause = error.__cause__
        if isinstance(error, RETRYABLE) or (isinstance(cause, psycopg.Error) and cause.sqlstate == UNUSUAL):
            raise NotFastPath from error
        raise


@contextmanager
def _plain_only() -> Iterator[None]:
    """Turn the server's error for an unusual settlement into `NotPlain`."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate == NOT_PLAIN:
            raise NotPlain from error
        raise


def _check(now_ms: int | None) -> None:
    if now_ms is not None:
        check_time("now_ms", now_ms)
