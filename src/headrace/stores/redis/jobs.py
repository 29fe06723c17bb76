"""The jobs protocol: each batch is cut by shard, decided by functions, and answered in the order given."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

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
from headrace.stores.redis.batches import (
    ShardCall,
    ShardCountCache,
    ShardedBatch,
    ShardReply,
    cut,
    own_args,
    send,
    shards_of,
)
from headrace.stores.redis.claim import ClaimCall, refused, request_args, shards_to_visit
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.enqueue import EnqueueCall
from headrace.stores.redis.errors import ScriptRefusal
from headrace.stores.redis.fanout import ask, now_argument
from headrace.stores.redis.keys import head_key
from headrace.stores.redis.queues import FailQueueRegistration, QueueRegistry
from headrace.stores.redis.settle import extend_args, extended_of, settle_args, settled_of
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
        self._checked = ShardCountCache(client)
        self._fail_queues = FailQueueRegistration(registry)
        self._enqueuing = EnqueueCall(client, registry, self._checked)
        self._claiming = ClaimCall(client, self._checked, self._fail_queues)

    async def enqueue(self, jobs: Sequence[Job], *, now_ms: int | None = None) -> list[Enqueued]:
        check_batch("jobs", len(jobs), BATCH_MAX)
        return await self._enqueuing.enqueue(jobs, now_argument(now_ms))

    def enqueue_nowait(self, jobs: Sequence[Job], answered: OnEnqueued) -> bool:
        """See `NowaitJobs`."""
        return self._enqueuing.post(jobs, answered)

    def claim_nowait(self, request: ClaimRequest, answered: OnClaimed) -> bool:
        """See `NowaitJobs`."""
        return self._claiming.post(request, answered)

    async def claim(self, request: ClaimRequest, *, now_ms: int | None = None) -> Claims:
        return await self._claiming.claim(request, now_argument(now_ms))

    async def extend(self, leases: Sequence[Lease], *, lease_ms: int, now_ms: int | None = None) -> list[Extended]:
        check_leases(leases)
        check_lease_ms(lease_ms)
        now = now_argument(now_ms)
        parts = cut(leases, lambda lease: (lease.queue, lease.id), extend_args)
        await self._checked.check(queues_of(parts))

        def arguments(group: Sequence[ShardCall]) -> list[Argument]:
            return [now, lease_ms, *shards_of(group), *own_args(group)]

        batch = ShardedBatch[Extended]([lease.id for lease in leases])
        for part, reply in zip(parts, await send(self._client, "extend", parts, arguments, lead=1), strict=True):
            if isinstance(reply, HeadraceError):
                batch.lose(reply)
                continue
            await self._note(part, reply)
            held = [leases[index] for index in part.picks]
            batch.fill(part.picks, extended_of(held, reply.answer, reply.lead + lease_ms))
        return batch.whole()

    async def settle(self, settlements: Sequence[Settlement], *, now_ms: int | None = None) -> list[Settled]:
        check_settlements(settlements)
        now = now_argument(now_ms)
        parts = cut(settlements, _address, settle_args)
        await self._checked.check(queues_of(parts))
        return await self._settle(settlements, parts, now)

    async def _settle(self, settlements: Sequence[Settlement], parts: list[ShardCall], now: int | str) -> list[Settled]:
        replies = await send(
            self._client, "settle", parts, lambda group: [now, *shards_of(group), *own_args(group)], lead=1
        )
        batch = ShardedBatch[Settled]([each.lease.id for each in settlements])
        for part, reply in zip(parts, replies, strict=True):
            if isinstance(reply, HeadraceError):
                batch.lose(reply)
                continue
            await self._note(part, reply)
            batch.fill(part.picks, self._settled(settlements, part, reply.answer))
        made = [
            part.shard.queue
            for part, reply in zip(parts, replies, strict=True)
            if isinstance(reply, ShardReply) and reply.made
        ]
        if made:
            await self._fail_queues.made(made)
        return batch.whole()

    def _settled(self, settlements: Sequence[Settlement], part: ShardCall, answer: list[Any] | None) -> list[Settled]:
        return settled_of(part.shard.index, [settlements[index] for index in part.picks], answer)

    async def turn(
        self, settlements: Sequence[Settlement], request: ClaimRequest, *, now_ms: int | None = None
    ) -> Turned:
        check_settlements(settlements)
        now = now_argument(now_ms)
        parts = cut(settlements, _address, settle_args)
        shards = shards_to_visit(request)
        await self._checked.check(list(dict.fromkeys([*queues_of(parts), *request.queues])))
        if not self._client.clustered or len({*(part.shard for part in parts), *shards}) == 1:
            with naming(each.lease.id for each in settlements):
                return await self._turn(settlements, parts, request, now)
        if not parts:
            claims = await self._claiming.claim(request, now)
            return Turned([], claims.items, claims.next_at_ms, claims.now_ms)
        settled = await self._settle(settlements, parts, now)
        try:
            claims = await self._claiming.claim(request, now)
        except HeadraceError as error:
            raise OutcomeUnknown(f"all was settled, but nothing could be claimed: {error}", known=settled) from error
        return Turned(settled, claims.items, claims.next_at_ms, claims.now_ms)

    async def _turn(
        self, settlements: Sequence[Settlement], parts: list[ShardCall], request: ClaimRequest, now: int | str
    ) -> Turned:
        visited = shards_to_visit(request)
        shards = [*(part.shard for part in parts), *visited]
        args = [now, len(parts), *request_args(request, request.limit, CLAIM_BYTES_MAX)]
        args += [shard.queue.shards for shard in shards]
        args += own_args(parts)
        try:
            reply = await self._client.call(ServerCall("turn", [head_key(shard) for shard in shards], args))
        except ScriptRefusal as refusal:
            raise refused(shards, refusal) from refusal
        (made, *answers), claimed = reply
        settled = ShardedBatch[Settled]([each.lease.id for each in settlements])
        for part, answer in zip(parts, answers, strict=True):
            settled.fill(part.picks, self._settled(settlements, part, answer))
        if b"1" in made:
            await self._fail_queues.made(
                [part.shard.queue for part, flag in zip(parts, made, strict=True) if flag == ord("1")]
            )
        claims = await self._claiming.read(request, visited, claimed)
        return Turned(settled.whole(), claims.items, claims.next_at_ms, claims.now_ms)

    async def repair(self, queue: Queue, *, limit: int = 100, now_ms: int | None = None) -> Repaired:
        check_int("limit", limit, 1, BATCH_MAX)
        answers = await ask(self._client, "repair", queue.all_shards(), [now_argument(now_ms), limit])
        found = [answer for answer in answers if answer is not None]
        if any(made for _, _, _, made in found):
            await self._fail_queues.made([queue])
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
        parts = cut(ids, lambda id: (queue, id), lambda picked: [len(picked), *picked])
        replies = await send(self._client, function, parts, lambda group: [queue.shards, *common, *own_args(group)])
        batch = ShardedBatch[Answer](ids)
        for part, reply in zip(parts, replies, strict=True):
            if isinstance(reply, HeadraceError):
                batch.lose(reply)
                continue
            await self._note(part, reply)
            statuses = "n" * len(part.picks) if reply.answer is None else reply.answer.decode()
            batch.fill(part.picks, [read(ids[at], status) for at, status in zip(part.picks, statuses, strict=True)])
        return batch.whole()

    async def _note(self, part: ShardCall, reply: ShardReply) -> None:
        if reply.answer is None:
            await self._checked.check_missing(part.shard)
        else:
            self._checked.note(part.shard.queue)


def queues_of(parts: Sequence[ShardCall]) -> list[Queue]:
    """The queues of a batch, each once."""
    return list(dict.fromkeys(part.shard.queue for part in parts))


def _address(settlement: Settlement) -> tuple[Queue, str]:
    return settlement.lease.queue, settlement.lease.id
