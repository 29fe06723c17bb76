"""Jobs: groups a batch by shard, runs one step for each, and answers item by item."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from headrace.model.claim import (
    Claim,
    ClaimRequest,
    Claims,
    Lease,
    Settlement,
    check_lease_ms,
    check_leases,
    check_settlements,
)
from headrace.model.job import Job
from headrace.model.limits import BATCH_MAX, CLAIM_BYTES_MAX
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Done
from headrace.model.results import Cancellation, Enqueued, Extended, Removed, Repaired, Settled, Turned
from headrace.model.validate import check_batch, check_bool, check_int
from headrace.stores.engine.cancel import cancel, remove
from headrace.stores.engine.claim import claim, hand_out_ready, is_known, known_claims, next_at, sweep
from headrace.stores.engine.enqueue import enqueue
from headrace.stores.engine.rows import Engine, Tx
from headrace.stores.engine.settle import extend, settle
from headrace.stores.engine.step import Answer, Step, at, finish_step
from headrace.stores.shared.sharding import Item, by_shard, visiting_order
from headrace.stores.shared.validate import check_ids, naming


class EngineJobs:
    """Jobs: one step for each shard of a batch, answers in the order of the batch."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def enqueue(self, jobs: Sequence[Job], *, now_ms: int | None = None) -> list[Enqueued]:
        check_batch("jobs", len(jobs), BATCH_MAX)
        with naming(job.id for job in jobs):
            act = at(now_ms, lambda tx, now_ms: self._enqueue(tx, jobs, now_ms))
            return await self._write(act, len(jobs), (job.payload for job in jobs))

    def _enqueue(self, tx: Tx, jobs: Sequence[Job], now_ms: int) -> list[Enqueued]:
        answers: list[Enqueued | None] = [None] * len(jobs)
        for shard, picks in by_shard(jobs, lambda job: (job.queue, job.id)):
            known = tx.shards_of(shard.queue)
            if known not in (None, shard.queue.shards):
                for index in picks:
                    answers[index] = Enqueued(jobs[index].id, "wrong_shards")
                continue
            rows = tx.rows(shard, create=True)
            if rows is not None:
                step = Step(rows, now_ms)
                _fill(answers, picks, self._enqueue_step(step, [jobs[index] for index in picks]))
                self._finish(step)
        return [answer for answer in answers if answer is not None]

    async def claim(self, request: ClaimRequest, *, now_ms: int | None = None) -> Claims:
        act = at(now_ms, lambda tx, now_ms: self._claim(tx, request, now_ms))
        return await self._write(act, request.limit)

    def _claim(self, tx: Tx, request: ClaimRequest, now_ms: int) -> Claims:
        queues = dict.fromkeys(request.queues)  # a repeated queue counts once
        shards = [shard for queue in queues for shard in visiting_order(queue, request.nonce)]
        visited = [rows for shard in shards if (rows := tx.rows(shard)) is not None]
        if any(is_known(rows, request) for rows in visited):
            repeated = [each for rows in visited for each in known_claims(rows, request, now_ms)]
            return Claims(repeated, now_ms, now_ms)
        items: list[Claim] = []
        bytes_left = CLAIM_BYTES_MAX
        claimable = {rows.shard: rows for rows in visited}
        for rows in visited:
            if len(items) == request.limit or bytes_left <= 0:
                return Claims(items, now_ms, now_ms)
            step = Step(rows, now_ms, request.worker)
            claims = claim(step, request, request.limit - len(items), bytes_left, self._hand_out)
            items += claims
            bytes_left -= sum(len(each.record.payload) for each in claims)
            self._finish(step)
            if (fail_queue := step.fail_queue_rows()) is not None and fail_queue.shard.queue in queues:
                claimable[fail_queue.shard] = fail_queue
        # At the end, of all shards: a job that dies puts one on its fail queue, which may have been visited before.
        times = [next_at(rows, now_ms) for rows in claimable.values()]
        return Claims(items, min((each for each in times if each is not None), default=None), now_ms)

    async def extend(self, leases: Sequence[Lease], *, lease_ms: int, now_ms: int | None = None) -> list[Extended]:
        check_leases(leases)
        check_lease_ms(lease_ms)

        def act(tx: Tx, now_ms: int) -> list[Extended]:
            return self._batch(
                tx,
                leases,
                lambda lease: (lease.queue, lease.id),
                lambda step, items: extend(step, items, lease_ms),
                lambda lease: Extended(lease.id, "not_active"),
                now_ms,
            )

        with naming(lease.id for lease in leases):
            return await self._engine.write(at(now_ms, act))

    async def settle(self, settlements: Sequence[Settlement], *, now_ms: int | None = None) -> list[Settled]:
        check_settlements(settlements)
        with naming(each.lease.id for each in settlements):
            act = at(now_ms, lambda tx, now_ms: self._settle(tx, settlements, now_ms))
            return await self._write(act, len(settlements), results_of(settlements))

    def _settle(self, tx: Tx, settlements: Sequence[Settlement], now_ms: int) -> list[Settled]:
        return self._batch(
            tx,
            settlements,
            lambda each: (each.lease.queue, each.lease.id),
            self._settle_step,
            lambda each: Settled(each.lease.id, "not_active"),
            now_ms,
        )

    async def turn(
        self, settlements: Sequence[Settlement], request: ClaimRequest, *, now_ms: int | None = None
    ) -> Turned:
        check_settlements(settlements)

        def act(tx: Tx, now_ms: int) -> Turned:
            # A wrong number of shards in the claim must refuse before anything is settled.
            for queue in request.queues:
                tx.rows(Shard(queue, 0))
            settled = self._settle(tx, settlements, now_ms)
            claims = self._claim(tx, request, now_ms)
            return Turned(settled, claims.items, claims.next_at_ms, now_ms)

        with naming(each.lease.id for each in settlements):
            return await self._write(at(now_ms, act), len(settlements) + request.limit, results_of(settlements))

    async def repair(self, queue: Queue, *, limit: int = 100, now_ms: int | None = None) -> Repaired:
        check_int("limit", limit, 1, BATCH_MAX)

        def act(tx: Tx, now_ms: int) -> Repaired:
            total = Repaired()
            for shard in queue.all_shards():
                rows = tx.rows(shard)
                if rows is not None:
                    step = Step(rows, now_ms)
                    part = sweep(step, limit)
                    self._finish(step)
                    total = Repaired(total.stalled + part.stalled, total.swept + part.swept, total.more or part.more)
            return total

        return await self._engine.write(at(now_ms, act))

    async def cancel(
        self, queue: Queue, ids: Sequence[str], *, running: bool = False, now_ms: int | None = None
    ) -> list[Cancellation]:
        check_bool("running", running)
        check_ids(queue, ids)

        def act(tx: Tx, now_ms: int) -> list[Cancellation]:
            return self._batch(
                tx,
                ids,
                lambda id: (queue, id),
                lambda step, items: cancel(step, items, running),
                lambda id: Cancellation(id, "not_found"),
                now_ms,
            )

        with naming(ids):
            return await self._engine.write(at(now_ms, act))

    async def remove(self, queue: Queue, ids: Sequence[str], *, now_ms: int | None = None) -> list[Removed]:
        check_ids(queue, ids)

        def act(tx: Tx, now_ms: int) -> list[Removed]:
            return self._batch(tx, ids, lambda id: (queue, id), remove, lambda id: Removed(id, "not_found"), now_ms)

        with naming(ids):
            return await self._engine.write(at(now_ms, act))

    def _batch(
        self,
        tx: Tx,
        items: Sequence[Item],
        address: Callable[[Item], tuple[Queue, str]],
        act: Callable[[Step, list[Item]], list[Answer]],
        unknown: Callable[[Item], Answer],
        now_ms: int,
    ) -> list[Answer]:
        answers: list[Answer | None] = [None] * len(items)
        groups = list(by_shard(items, address))
        # All rows are opened before the first write: a wrong number of shards refuses the whole call.
        opened = [(tx.rows(shard), picks) for shard, picks in groups]
        for rows, picks in opened:
            if rows is None:
                for index in picks:
                    answers[index] = unknown(items[index])
                continue
            step = Step(rows, now_ms)
            _fill(answers, picks, act(step, [items[index] for index in picks]))
            self._finish(step)
        return [answer for answer in answers if answer is not None]

    def _finish(self, step: Step) -> None:
        finish_step(self._engine, step)

    # A driver may override these with faster ones of the same results.

    async def _write(self, act: Callable[[Tx], Answer], count: int, bodies: Iterable[bytes] = ()) -> Answer:  # noqa: ARG002 - for drivers
        """Run a step on `count` jobs with these payloads or results."""
        return await self._engine.write(act)

    def _enqueue_step(self, step: Step, jobs: list[Job]) -> list[Enqueued]:
        return enqueue(step, jobs)

    def _hand_out(self, step: Step, request: ClaimRequest, limit: int, bytes_left: int) -> list[Claim]:
        return hand_out_ready(step, request, limit, bytes_left)

    def _settle_step(self, step: Step, settlements: list[Settlement]) -> list[Settled]:
        return settle(step, settlements)


def results_of(settlements: Iterable[Settlement]) -> Iterator[bytes]:
    """The results that settlements carry."""
    for each in settlements:
        outcome = each.outcome
        if isinstance(outcome, Done) and outcome.result is not None:
            yield outcome.result


def _fill(answers: list[Answer | None], picks: list[int], part: Sequence[Answer]) -> None:
    for index, answer in zip(picks, part, strict=True):
        answers[index] = answer
