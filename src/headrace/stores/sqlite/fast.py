"""Fast paths: the three hot calls in a few statements each, for batches in which nothing unusual happens.

Whatever is unusual (a known id, a key, a lost lease, a twin, a job too late or too large) raises `Unusual`; the engine
then rolls the transaction back and runs it again through the transitions, which decide everything. So a fast path may
only be right or give up.
"""

import sqlite3

from headrace.model.answers import Enqueued, Settled
from headrace.model.claim import Claim, ClaimRequest, Lease, Settlement, token_of
from headrace.model.event import Line
from headrace.model.job import Job
from headrace.model.outcome import Done
from headrace.model.verdict import is_expired
from headrace.stores.calls.jobs import EngineJobs
from headrace.stores.sqlite.rows import PackedLease, SqliteRows, pack, pack_body, record_of, unpack_body
from headrace.stores.sqlite.sql import sql
from headrace.stores.transitions.endings import sweep_endings
from headrace.stores.transitions.step import Step, place_of


class Unusual(Exception):
    """The fast path does not apply."""


class SqliteJobs(EngineJobs):
    """Tries the fast path first where the step allows it."""

    def _enqueue_step(self, step: Step, jobs: list[Job]) -> list[Enqueued]:
        rows = step.rows
        if isinstance(rows, SqliteRows) and rows.fast:
            return enqueue(step, rows, jobs)
        return super()._enqueue_step(step, jobs)

    def _hand_out(self, step: Step, request: ClaimRequest, limit: int, bytes_left: int) -> list[Claim]:
        rows = step.rows
        if isinstance(rows, SqliteRows) and rows.fast:
            return hand_out(step, rows, request, limit, bytes_left)
        return super()._hand_out(step, request, limit, bytes_left)

    def _settle_step(self, step: Step, settlements: list[Settlement]) -> list[Settled]:
        rows = step.rows
        if isinstance(rows, SqliteRows) and rows.fast:
            return settle(step, rows, settlements)
        return super()._settle_step(step, settlements)


def enqueue(step: Step, rows: SqliteRows, jobs: list[Job]) -> list[Enqueued]:
    """Take in jobs that are all new."""
    head, config, now_ms, shard_id = rows.head, rows.config, step.now_ms, rows.shard_id
    if rows.held() + len(jobs) > config.waiting_max:
        raise Unusual
    number, lines, columns = head.number, step.lines, []
    for job in jobs:
        if job.idempotency_key is not None:
            raise Unusual
        priority, run_at_ms, place = config.priority_of(job.policy), job.due_ms(now_ms), None
        if run_at_ms <= now_ms:
            number += 1
            place = place_of(priority, number)
        columns.append((shard_id, job.id, place, run_at_ms, pack_body(job, now_ms), job.payload))
        lines.append(
            Line(
                "enqueued",
                job.id,
                job.kind,
                job.tag,
                priority,
                run_at_ms=run_at_ms,
                payload_bytes=len(job.payload),
            )
        )
    try:
        rows.connection.executemany(sql("enqueue"), columns)
    except sqlite3.IntegrityError as known:
        raise Unusual from known
    ready = number - head.number
    head.number = number
    head.ready += ready
    head.later += len(jobs) - ready
    rows.drop_endings([job.id for job in jobs])
    step.woke = True
    return [Enqueued(job.id, "created") for job in jobs]


def hand_out(step: Step, rows: SqliteRows, request: ClaimRequest, limit: int, bytes_left: int) -> list[Claim]:
    """Hand out the first ready jobs, if all of them may start and fit."""
    rows.forget()
    head, now_ms = rows.head, step.now_ms
    if not head.ready:
        return []
    nonce, worker, expires_at_ms = request.nonce, request.worker, now_ms + request.lease_ms
    packed_lease = pack(PackedLease(worker, now_ms, False))
    found = rows.connection.execute(
        sql("claim"), (head.fence, expires_at_ms, nonce, packed_lease, rows.shard_id, limit)
    ).fetchall()
    found.sort()
    queue, config = rows.shard.queue, rows.config
    claims, lines = [], step.lines
    for fence, id, run_at_ms, packed, payload in found:
        record = record_of(id, run_at_ms, unpack_body(packed), payload)
        policy = record.policy
        bytes_left -= len(payload)
        if bytes_left < 0 or is_expired(record, now_ms):
            raise Unusual
        lease = Lease(queue, id, token_of(nonce, fence), fence, expires_at_ms)
        priority, timeout_ms = config.priority_of(policy), config.timeout_of(policy)
        claims.append(Claim(lease, record, worker, priority, timeout_ms, now_ms))
        lines.append(Line("claimed", id, fence=fence))
    head.fence += len(claims)
    head.ready -= len(claims)
    head.active += len(claims)
    return claims


def settle(step: Step, rows: SqliteRows, settlements: list[Settlement]) -> list[Settled]:
    """End deliveries that are all done and all hold their leases."""
    head, config, now_ms, shard_id = rows.head, rows.config, step.now_ms, rows.shard_id
    if head.blocked or not settlements:
        raise Unusual
    rows.forget()
    step.worker = worker = step.worker or settlements[0].facts.worker
    lines, columns, endings = step.lines, [], []
    for settlement in settlements:
        lease, outcome, facts = settlement.lease, settlement.outcome, settlement.facts
        nonce, _, fence_text = lease.token.rpartition(".")
        if not isinstance(outcome, Done) or not fence_text.isdecimal() or len(fence_text) > 18:
            raise Unusual
        fence = int(fence_text)
        if token_of(nonce, fence) != lease.token:  # other digits of the same value
            raise Unusual
        columns.append((shard_id, lease.id, fence, nonce, now_ms))
        lines.append(
            Line(
                "done",
                lease.id,
                facts.kind,
                facts.tag,
                facts.priority,
                facts.attempts,
                facts.stalls,
                fence,
                None if facts.worker == worker else facts.worker,
                None,
                facts.enqueued_at_ms,
                facts.wait_ms,
                facts.run_ms,
                payload_bytes=facts.payload_bytes,
            )
        )
        pin_ms = config.result_ttl_ms if facts.result_ttl_ms is None else facts.result_ttl_ms
        keep_ms = pin_ms or (config.keep_done_ms if config.keep_done_max else 0)
        if not keep_ms:
            raise Unusual
        endings.append(
            (
                lease.id,
                "done",
                facts.kind,
                facts.tag,
                facts.enqueued_at_ms,
                now_ms,
                now_ms + keep_ms,
                pin_ms > 0,
                facts.attempts,
                facts.stalls,
                outcome.result,
            )
        )
    if rows.connection.executemany(sql("settle"), columns).rowcount != len(columns):
        raise Unusual
    head.active -= len(columns)
    try:
        rows.insert_endings(endings)
    except sqlite3.IntegrityError as older:
        raise Unusual from older
    sweep_endings(step)
    return [Settled(settlement.lease.id, "done") for settlement in settlements]
