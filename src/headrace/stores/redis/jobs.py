"""The jobs protocol: batches are grouped by shard, decided by functions, and answered in their own order."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from headrace.model.claim import (
    ClaimRequest,
    Claims,
    Lease,
    Settlement,
    check_lease_ms,
    check_leases,
    check_settlements,
)
from headrace.model.errors import HeadraceError, OutcomeUnknown
from headrace.model.job import Job
from headrace.model.limits import BATCH_MAX, CLAIM_BYTES_MAX
from headrace.model.names import Queue
from headrace.model.results import Cancellation, Enqueued, Extended, Removed, Repaired, Settled, Turned
from headrace.model.validate import check_batch, check_bool, check_int
from headrace.stores.contract.jobs import OnClaimed, OnEnqueued
from headrace.stores.redis.claim import ClaimCall, is_cut_short, request_args, shards_to_visit
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.enqueue import EnqueueCall
from headrace.stores.redis.errors import ScriptRefusal
from headrace.stores.redis.fanout import (
    ShardCall,
    ShardCountCache,
    ShardedBatch,
    call_batch,
    call_shards,
    group_by_shard,
    now_argument,
    own_args,
    queues_of,
    refusal_error,
)
from headrace.stores.redis.keys import head_key
from headrace.stores.redis.queues import FailQueueRegistration, QueueRegistry
from headrace.stores.redis.settle import SettleCall, settle_calls, settled_of
from headrace.stores.shared.validate import check_ids, naming

_CANCELLED: dict[str, tuple[Literal["cancelled", "asked", "active", "not_found"], bool]] = {
    "c": ("cancelled", False),
    "C": ("cancelled", True),
    "k": ("asked", False),
    "K": ("asked", True),
    "a": ("active", False),
    "n": ("not_found", False),
}
Answer = TypeVar("Answer")


class RedisJobs:
    """One call per batch on one server, one round trip per server on a cluster."""

    def __init__(self, client: RedisClient, registry: QueueRegistry) -> None:
        self._client = client
        self._shard_counts = ShardCountCache(client)
        self._fail_queues = FailQueueRegistration(registry)
        self._enqueue = EnqueueCall(client, registry)
        self._claim = ClaimCall(client, self._shard_counts, self._fail_queues)
        self._settle = SettleCall(client, self._shard_counts, self._fail_queues)

    async def enqueue(self, jobs: Sequence[Job], *, now_ms: int | None = None) -> list[Enqueued]:
        check_batch("jobs", len(jobs), BATCH_MAX)
        return await self._enqueue.enqueue(jobs, now_argument(now_ms))

    def enqueue_nowait(self, jobs: Sequence[Job], on_answer: OnEnqueued) -> bool:
        """See `NowaitJobs`."""
        return self._enqueue.enqueue_nowait(jobs, on_answer)

    def claim_nowait(self, request: ClaimRequest, on_answer: OnClaimed) -> bool:
        """See `NowaitJobs`."""
        return self._claim.claim_nowait(request, on_answer)

    async def claim(self, request: ClaimRequest, *, now_ms: int | None = None) -> Claims:
        return await self._claim.claim(request, now_argument(now_ms))

    async def extend(self, leases: Sequence[Lease], *, lease_ms: int, now_ms: int | None = None) -> list[Extended]:
        check_leases(leases)
        check_lease_ms(lease_ms)
        return await self._settle.extend(leases, lease_ms, now_argument(now_ms))

    async def settle(self, settlements: Sequence[Settlement], *, now_ms: int | None = None) -> list[Settled]:
        check_settlements(settlements)
        now = now_argument(now_ms)
        calls = settle_calls(settlements)
        await self._shard_counts.check(queues_of(calls))
        return await self._settle.settle(settlements, calls, now)

    async def turn(
        self, settlements: Sequence[Settlement], request: ClaimRequest, *, now_ms: int | None = None
    ) -> Turned:
        check_settlements(settlements)
        now = now_argument(now_ms)
        calls = settle_calls(settlements)
        shards = shards_to_visit(request)
        await self._shard_counts.check(list(dict.fromkeys([*queues_of(calls), *request.queues])))
        if not self._client.clustered or len({*(call.shard for call in calls), *shards}) == 1:
            with naming(each.lease.id for each in settlements):
                return await self._turn(settlements, calls, request, now)
        if not calls:
            claims = await self._claim.claim(request, now)
            return Turned([], claims.items, claims.next_at_ms, claims.now_ms)
        settled = await self._settle.settle(settlements, calls, now)
        try:
            claims = await self._claim.claim(request, now)
        except HeadraceError as error:
            raise OutcomeUnknown(f"all was settled, but nothing could be claimed: {error}", known=settled) from error
        return Turned(settled, claims.items, claims.next_at_ms, claims.now_ms)

    async def _turn(
        self,
        settlements: Sequence[Settlement],
        calls: Sequence[ShardCall[Settlement]],
        request: ClaimRequest,
        now: int | str,
    ) -> Turned:
        """Settle and claim in one call."""
        visited = shards_to_visit(request)
        shards = [*(call.shard for call in calls), *visited]
        args = [now, len(calls), *request_args(request, request.limit, CLAIM_BYTES_MAX)]
        args += [shard.queue.shards for shard in shards]
        args += own_args(calls)
        try:
            reply = await self._client.call(ServerCall("turn", [head_key(shard) for shard in shards], args))
        except ScriptRefusal as refusal:
            raise refusal_error(shards, refusal) from refusal
        (created, *answers), claimed = reply
        settled = ShardedBatch[Settled]([each.lease.id for each in settlements])
        for call, answer in zip(calls, answers, strict=True):
            settled.add_answers(call.positions, settled_of(call.shard.index, call.items, answer))
        failed = [call.shard.queue for call, flag in zip(calls, created, strict=True) if flag == ord("1")]
        if failed:
            await self._fail_queues.register(failed)
        claims = await self._claim.read(request, visited, claimed)
        next_at_ms = claims.next_at_ms
        if failed and is_cut_short(request, visited, claimed, [queue.fail_queue for queue in failed]):
            next_at_ms = claims.now_ms
        return Turned(settled.result(), claims.items, next_at_ms, claims.now_ms)

    async def repair(self, queue: Queue, *, limit: int = 100, now_ms: int | None = None) -> Repaired:
        check_int("limit", limit, 1, BATCH_MAX)
        answers = await call_shards(self._client, "repair", queue.all_shards(), [now_argument(now_ms), limit])
        found = [answer for answer in answers if answer is not None]
        if any(created for _, _, _, created in found):
            await self._fail_queues.register([queue])
        return Repaired(
            sum(stalled for stalled, _, _, _ in found),
            sum(swept for _, swept, _, _ in found),
            any(more for _, _, more, _ in found),
        )

    async def cancel(
        self, queue: Queue, ids: Sequence[str], *, running: bool = False, now_ms: int | None = None
    ) -> list[Cancellation]:
        check_bool("running", running)

        def read(id: str, status: str) -> Cancellation:
            return Cancellation(id, *_CANCELLED[status])

        return await self._for_ids("cancel", queue, ids, [now_argument(now_ms), int(running)], read)

    async def remove(self, queue: Queue, ids: Sequence[str], *, now_ms: int | None = None) -> list[Removed]:
        def read(id: str, status: str) -> Removed:
            return Removed(id, "removed" if status == "r" else "not_found")

        return await self._for_ids("remove", queue, ids, [now_argument(now_ms)], read)

    async def _for_ids(
        self,
        function: str,
        queue: Queue,
        ids: Sequence[str],
        common: list[Argument],
        read: Callable[[str, str], Answer],
    ) -> list[Answer]:
        check_ids(queue, ids)
        groups = group_by_shard(ids, lambda id: (queue, id))
        calls = [ShardCall(shard, positions, items, [len(items), *items]) for shard, positions, items in groups]
        batch = ShardedBatch[Answer](ids)
        replies = await call_batch(self._client, function, [queue.shards, *common], calls, has_counts=False)
        for call, reply in zip(calls, replies, strict=True):
            if isinstance(reply, HeadraceError):
                batch.add_error(reply)
                continue
            await self._shard_counts.add_answer(call.shard, reply.answer)
            statuses = "n" * len(call.items) if reply.answer is None else reply.answer.decode()
            batch.add_answers(
                call.positions, [read(id, status) for id, status in zip(call.items, statuses, strict=True)]
            )
        return batch.result()
