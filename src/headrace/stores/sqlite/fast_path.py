"""Runs enqueue, claim and settle in a few statements each, for batches without special cases.

A special case (a known id, an idempotency key, a lost lease, a blocked job, an expired job, a payload too large)
raises `NotOnFastPath`; the transaction is then rolled back and the call runs again without the fast path, which
handles every case. So a fast path is right or gives up."""

import sqlite3
from collections.abc import Callable, Iterable
from typing import Protocol

from headrace.model.claim import Claim, ClaimRequest, Claims, Lease, Settlement, token_of
from headrace.model.decision import is_expired
from headrace.model.event import EventRecord, payload_text
from headrace.model.job import Job
from headrace.model.outcome import Done
from headrace.model.results import Enqueued, Settled
from headrace.stores.engine.claim import is_idle, next_at
from headrace.stores.engine.jobs import EngineJobs
from headrace.stores.engine.row_codec import (
    Body,
    PackedLease,
    pack,
    pack_body,
    pack_finished_job,
    record_of,
    unpack_body,
)
from headrace.stores.engine.rows import Engine, Tx
from headrace.stores.engine.settle import sweep_finished_jobs
from headrace.stores.engine.step import Answer, Step, at, order_key_of
from headrace.stores.sqlite.job_rows import SqliteRows
from headrace.stores.sqlite.sql import json_array, sql

NO_BODY = Body("", None, 0)
"""The body before the first job of a batch."""


class NotOnFastPath(Exception):
    """The fast path does not apply."""


class ShortEngine(Engine, Protocol):
    """Runs short steps without a switch to the writer's thread, if possible."""

    async def write_short(self, act: Callable[[Tx], Answer], rows: int, size: int) -> Answer:
        """As `write`, for a step of this many rows and bytes."""

    def count_bytes(self, size: int) -> None:
        """Count payload bytes that were unknown before the step."""


class SqliteJobs(EngineJobs):
    """Tries the fast path first where the step allows it. A claim after an empty one reads before it takes the write
    lock: idle workers must not hinder writers."""

    def __init__(self, engine: ShortEngine) -> None:
        super().__init__(engine)
        self._short = engine
        self._was_idle = False

    async def _write(self, act: Callable[[Tx], Answer], count: int, bodies: Iterable[bytes] = ()) -> Answer:
        return await self._short.write_short(act, count, sum(map(len, bodies)))

    async def claim(self, request: ClaimRequest, *, now_ms: int | None = None) -> Claims:
        if self._was_idle:
            idle = await self._engine.read(at(now_ms, lambda tx, now_ms: _idle_claims(tx, request, now_ms)))
            if idle is not None:
                return idle
        claims = await super().claim(request, now_ms=now_ms)
        self._was_idle = not claims.items
        return claims

    def _enqueue_step(self, step: Step, jobs: list[Job]) -> list[Enqueued]:
        rows = step.rows
        if isinstance(rows, SqliteRows) and rows.fast:
            return fast_enqueue(step, rows, jobs)
        return super()._enqueue_step(step, jobs)

    def _hand_out(self, step: Step, request: ClaimRequest, limit: int, bytes_left: int) -> list[Claim]:
        rows = step.rows
        if isinstance(rows, SqliteRows) and rows.fast:
            claims = fast_claim(step, rows, request, limit, bytes_left)
        else:
            claims = super()._hand_out(step, request, limit, bytes_left)
        self._short.count_bytes(sum(len(claim.record.payload) for claim in claims))
        return claims

    def _settle_step(self, step: Step, settlements: list[Settlement]) -> list[Settled]:
        rows = step.rows
        if isinstance(rows, SqliteRows) and rows.fast:
            return fast_settle(step, rows, settlements)
        return super()._settle_step(step, settlements)


def _idle_claims(tx: Tx, request: ClaimRequest, now_ms: int) -> Claims | None:
    shards = [shard for queue in request.queues for shard in queue.all_shards()]
    visited = [rows for shard in shards if (rows := tx.rows(shard)) is not None]
    if not all(is_idle(rows, request, now_ms) for rows in visited):
        return None
    times = [next_at(rows, now_ms) for rows in visited]
    return Claims([], min((each for each in times if each is not None), default=None), now_ms)


def fast_enqueue(step: Step, rows: SqliteRows, jobs: list[Job]) -> list[Enqueued]:
    """Insert jobs that are all new."""
    counters, config, now_ms, shard_id = rows.counters, rows.config, step.now_ms, rows.shard_id
    if rows.waiting_count() + len(jobs) > config.waiting_max:
        raise NotOnFastPath
    number, lines, columns = counters.number, step.lines, []
    for job in jobs:
        if job.idempotency_key is not None:
            raise NotOnFastPath
        priority, run_at_ms, order_key = config.priority_of(job.policy), job.due_ms(now_ms), None
        if run_at_ms <= now_ms:
            number += 1
            order_key = order_key_of(priority, number)
        columns.append((shard_id, job.id, order_key, run_at_ms, pack_body(job, now_ms), job.payload))
        lines.append(
            EventRecord(
                "enqueued",
                job.id,
                job.kind,
                job.tag,
                priority,
                run_at_ms=run_at_ms,
                payload_bytes=len(job.payload),
                payload=payload_text(job.payload) if config.journal_payloads else None,
            )
        )
    try:
        rows.connection.executemany(sql("job_enqueue"), columns)
    except sqlite3.IntegrityError as known:
        raise NotOnFastPath from known
    ready = number - counters.number
    counters.number = number
    counters.ready += ready
    counters.later += len(jobs) - ready
    rows.finished.drop_all([job.id for job in jobs])
    step.woke = True
    return [Enqueued(job.id, "created") for job in jobs]


def fast_claim(step: Step, rows: SqliteRows, request: ClaimRequest, limit: int, bytes_left: int) -> list[Claim]:
    """Claim the first ready jobs, if none has expired and all payloads fit."""
    rows.forget()
    counters, now_ms = rows.counters, step.now_ms
    if not counters.ready:
        return []
    queue, config, nonce, worker = rows.shard.queue, rows.config, request.nonce, request.worker
    expires_at_ms, fence, before = now_ms + request.lease_ms, counters.fence, -1
    runs: list[list[int]] = []
    claims, lines = [], step.lines
    known, body, priority, timeout_ms = b"", NO_BODY, 0, 0
    for order_key, id, run_at_ms, packed, payload in rows.connection.execute(
        sql("job_claim_next"), (rows.shard_id, limit)
    ):
        is_new = packed != known  # jobs of one enqueue mostly have equal bodies: 0.5 µs less a job
        if is_new:
            body = unpack_body(packed)
            known = b"" if body.headers else packed  # headers are a dict of each job, which the caller may change
            priority, timeout_ms = config.priority_of(body.policy), config.timeout_of(body.policy)
        record = record_of(id, run_at_ms, body, payload)
        bytes_left -= len(payload)
        if bytes_left < 0 or (is_new and is_expired(record, now_ms)):
            raise NotOnFastPath
        if order_key != before + 1:
            runs.append([fence + 1 - order_key, order_key, order_key])
        fence += 1
        runs[-1][2] = before = order_key
        lease = Lease(queue, id, token_of(nonce, fence), fence, expires_at_ms)
        claims.append(Claim(lease, record, worker, priority, timeout_ms, now_ms))
        lines.append(EventRecord("claimed", id, fence=fence))
    lease_rest = pack(PackedLease(worker, now_ms, False))
    for fence_of_order_key_0, first, last in runs:
        # One statement for each unbroken run of order keys: there, fences count up as order keys do.
        rows.connection.execute(
            sql("job_claim_run"), (fence_of_order_key_0, expires_at_ms, nonce, lease_rest, rows.shard_id, first, last)
        )
    counters.fence = fence
    counters.ready -= len(claims)
    counters.active += len(claims)
    return claims


def fast_settle(step: Step, rows: SqliteRows, settlements: list[Settlement]) -> list[Settled]:
    """Settle deliveries that are all done and all have their leases."""
    counters, config, now_ms, shard_id = rows.counters, rows.config, step.now_ms, rows.shard_id
    if counters.blocked or not settlements:
        raise NotOnFastPath
    rows.forget()
    step.worker = worker = step.worker or settlements[0].facts.worker
    ids = [settlement.lease.id for settlement in settlements]
    # Select, then delete by key: DELETE … RETURNING collects its rows first, and costs 0.5 µs a job more.
    found = rows.connection.execute(sql("job_settle_find"), (json_array(ids), shard_id, now_ms)).fetchall()
    deliveries = {id: (token_of(nonce, fence), fence, packed) for _, id, fence, nonce, packed in found}
    if len(deliveries) != len(settlements):
        raise NotOnFastPath
    lines, finished_jobs = step.lines, []
    known, body, keep_ms, is_pinned, ended = b"", NO_BODY, 0, False, b""
    for settlement in settlements:
        lease, outcome, facts = settlement.lease, settlement.outcome, settlement.facts
        token, fence, packed = deliveries[lease.id]
        if token != lease.token or not isinstance(outcome, Done):
            raise NotOnFastPath
        if packed != known:  # as above: jobs with equal bodies have equal finished jobs, but for their results
            known, body = packed, unpack_body(packed)
            pin_ms = config.result_ttl_of(body.policy)
            keep_ms = pin_ms or (config.keep_done_ms if config.keep_done_max else 0)
            is_pinned = pin_ms > 0
            ended = pack_finished_job(body.kind, body.tag, body.enqueued_at_ms, now_ms, body.attempts, body.stalls)
        lines.append(
            EventRecord(
                "done",
                lease.id,
                facts.kind,
                facts.tag,
                facts.priority,
                body.attempts,
                body.stalls,
                fence,
                None if facts.worker == worker else facts.worker,
                None,
                facts.enqueued_at_ms,
                facts.wait_ms,
                facts.run_ms,
                payload_bytes=facts.payload_bytes,
            )
        )
        if keep_ms:
            finished_jobs.append((lease.id, "done", is_pinned, now_ms + keep_ms, ended, outcome.result))
    _drop(rows, [job_id for job_id, *_ in found])
    counters.active -= len(found)
    if len(finished_jobs) < len(ids):  # an unkept job replaces its older finished job as well
        rows.finished.drop_all(sorted(set(ids) - {finished_job[0] for finished_job in finished_jobs}))
    try:
        rows.finished.insert(finished_jobs)
    except sqlite3.IntegrityError as older:
        raise NotOnFastPath from older
    sweep_finished_jobs(step)
    return [Settled(settlement.lease.id, "done") for settlement in settlements]


def _drop(rows: SqliteRows, job_ids: list[int]) -> None:
    first, last = min(job_ids), max(job_ids)
    if last - first + 1 == len(job_ids):  # enqueued in a row: 0.3 µs a job less
        rows.connection.execute(sql("job_settle_run"), (first, last))
    else:
        rows.connection.execute(sql("job_settle_each"), (json_array(job_ids),))
