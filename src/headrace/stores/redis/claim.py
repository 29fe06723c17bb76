"""Claims: what functions are told of one, and what their answers stand for."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from headrace.model.claim import Claim, ClaimRequest, Claims, Lease, token_of
from headrace.model.errors import HeadraceError, OutcomeUnknown, StoreUnavailable
from headrace.model.job import Record
from headrace.model.limits import CLAIM_BYTES_MAX
from headrace.model.names import Queue, Shard
from headrace.stores.contract.jobs import OnClaimed
from headrace.stores.redis.batches import ShardCountCache
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.errors import ScriptRefusal
from headrace.stores.redis.keys import head_key
from headrace.stores.redis.packing import HEAD_AT, NO_SHAPE, record_of, shape_of
from headrace.stores.redis.queues import FailQueueRegistration
from headrace.stores.shared.sharding import visiting_order
from headrace.stores.shared.validate import wrong_shards

_MADE, _LEFT = ord("1"), b"2"
"""What a death did to the fail queue of a shard: it made it, or left a job on the one that was there."""


def shards_to_visit(request: ClaimRequest) -> list[Shard]:
    """The shards of a claim in the order of visiting."""
    queues = dict.fromkeys(request.queues)  # one named twice is still one
    return [shard for queue in queues for shard in visiting_order(queue, request.nonce)]


def request_args(request: ClaimRequest, limit: int, bytes_left: int) -> list[Argument]:
    """What functions are told of a request."""
    return [request.worker, request.nonce, request.lease_ms, limit, bytes_left]


def claim_call(
    request: ClaimRequest, shards: Sequence[Shard], now: int | str, limit: int, bytes_left: int
) -> ServerCall:
    """The call of the claim function."""
    args = [now, *request_args(request, limit, bytes_left), *(shard.queue.shards for shard in shards)]
    return ServerCall("claim", [head_key(shard) for shard in shards], args)


def claims_of(request: ClaimRequest, shards: Sequence[Shard], reply: list[Any]) -> Claims:
    """What the reply of a claim stands for."""
    flags, was_answered, now_ms, next_at_ms, *answers = reply
    items: list[Claim] = []
    for shard, answer in zip(shards, answers, strict=True):
        if answer is not None:
            items += (
                _again_of(request, shard.queue, answer)
                if was_answered
                else _new_of(request, shard.queue, answer, now_ms)
            )
    if any(
        flag == _MADE and shard.queue.fail_queue in request.queues for flag, shard in zip(flags, shards, strict=True)
    ):
        next_at_ms = now_ms  # a fail queue that was made here was not there to be visited
    return Claims(items, next_at_ms, now_ms)


def _new_of(request: ClaimRequest, queue: Queue, answer: list[Any], now_ms: int) -> list[Claim]:
    queue_priority, queue_timeout_ms, first_fence, flat = answer
    nonce, worker, expires_at_ms = request.nonce, request.worker, now_ms + request.lease_ms
    claims: list[Claim] = []
    head, read, payload_at, kind, tag, policy = NO_SHAPE
    priority, timeout_ms = queue_priority, queue_timeout_ms
    for fence, at in enumerate(range(0, len(flat), 2), first_fence):
        id, body = flat[at].decode(), flat[at + 1]
        # Neighbours are mostly of one shape: seeing that costs a fifth of reading what it says, and they share it.
        if not body.startswith(head, HEAD_AT):
            head, read, payload_at, kind, tag, policy = shape_of(body)
            priority = queue_priority if policy.priority is None else policy.priority
            timeout_ms = queue_timeout_ms if policy.timeout_ms is None else policy.timeout_ms
        since, since_low, due, due_low, attempts, stalls, payload_size, _ = read(body)
        if payload_at + payload_size < len(body):
            record = record_of(id, body, None)  # with headers, or with the error of an earlier attempt
        else:
            record = Record(
                id=id,
                kind=kind,
                payload=body[payload_at:],
                run_at_ms=due << 32 | due_low,
                enqueued_at_ms=since << 32 | since_low,
                policy=policy,
                tag=tag,
                attempts=attempts,
                stalls=stalls,
            )
        lease = Lease(queue, id, f"{nonce}.{fence}", fence, expires_at_ms)
        claims.append(Claim(lease, record, worker, priority, timeout_ms, now_ms))
    return claims


def _again_of(request: ClaimRequest, queue: Queue, answer: list[Any]) -> list[Claim]:
    priority, timeout_ms, _, flat = answer
    claims: list[Claim] = []
    for at in range(0, len(flat), 5):
        id, body, fence, claimed_at_ms, expires_at_ms = flat[at : at + 5]
        record = record_of(id.decode(), body, None)
        policy = record.policy
        claims.append(
            Claim(
                Lease(queue, record.id, token_of(request.nonce, fence), fence, expires_at_ms),
                record,
                request.worker,
                priority if policy.priority is None else policy.priority,
                timeout_ms if policy.timeout_ms is None else policy.timeout_ms,
                claimed_at_ms,
            )
        )
    return claims


class ClaimCall:
    """Claims on one server in one call; on a cluster shard by shard, once it is clear that no shard knows the nonce."""

    def __init__(self, client: RedisClient, checked: ShardCountCache, fail_queues: FailQueueRegistration) -> None:
        self._client = client
        self._checked = checked
        self._fail_queues = fail_queues
        self._naming: set[asyncio.Task[None]] = set()

    def post(self, request: ClaimRequest, answered: OnClaimed) -> bool:
        """As `claim`, by the server's clock, written at once and without a task; False when nothing was sent."""
        shards = shards_to_visit(request)
        call = claim_call(request, shards, "", request.limit, CLAIM_BYTES_MAX)
        return self._client.post(call, partial(self._take, request, shards, answered))

    def _take(self, request: ClaimRequest, shards: Sequence[Shard], answered: OnClaimed, reply: Any) -> None:
        """Take the reply to what was posted. What has surely changed nothing is asked for again the long way."""
        found: Claims | Exception | None = None
        try:
            if isinstance(reply, OutcomeUnknown):
                found = reply
            elif not isinstance(reply, HeadraceError):
                if _MADE in reply[0]:
                    task = asyncio.create_task(self._read_later(request, shards, answered, reply))
                    self._naming.add(task)
                    task.add_done_callback(self._naming.discard)
                    return
                found = self._read(request, shards, reply)
        except Exception as error:  # noqa: BLE001 - the connection, which others use, must not break by it
            found = error
        answered(found)

    async def _read_later(
        self, request: ClaimRequest, shards: Sequence[Shard], answered: OnClaimed, reply: list[Any]
    ) -> None:
        answered(await self.read(request, shards, reply))

    async def claim(self, request: ClaimRequest, now: int | str) -> Claims:
        shards = shards_to_visit(request)
        if not self._client.clustered or len(shards) == 1:
            claims, _ = await self._claim(request, shards, now, request.limit, CLAIM_BYTES_MAX)
            return claims
        await self._checked.check(list(dict.fromkeys(request.queues)))
        answers = await self._ask_again(request, shards, now, 0)
        if any(isinstance(answer, list) for _, answer in answers):
            return await self._again(request, shards, now)
        there = [shard for shard, (_, answer) in zip(shards, answers, strict=True) if answer is not None]
        return await self._claim_each(request, there, now, answers[0][0])

    async def _claim(
        self, request: ClaimRequest, shards: Sequence[Shard], now: int | str, limit: int, bytes_left: int
    ) -> tuple[Claims, bytes]:
        """What was claimed, and what deaths did to the fail queue of each shard, as dying.handed_on says."""
        try:
            reply = await self._client.call(claim_call(request, shards, now, limit, bytes_left))
        except ScriptRefusal as refusal:
            raise refused(shards, refusal) from refusal
        return await self.read(request, shards, reply), reply[0]

    async def read(self, request: ClaimRequest, shards: Sequence[Shard], reply: list[Any]) -> Claims:
        """What the reply of a claim stands for, and what has to follow it."""
        if _MADE in reply[0]:
            await self._fail_queues.made(
                [shard.queue for shard, flag in zip(shards, reply[0], strict=True) if flag == _MADE]
            )
        return self._read(request, shards, reply)

    def _read(self, request: ClaimRequest, shards: Sequence[Shard], reply: list[Any]) -> Claims:
        for shard, answer in zip(shards, reply[4:], strict=True):
            if answer is not None:
                self._checked.note(shard.queue)
        return claims_of(request, shards, reply)

    async def _again(self, request: ClaimRequest, shards: Sequence[Shard], now: int | str) -> Claims:
        """The claims of an earlier call with this nonce, which some shard knows."""
        answers = await self._ask_again(request, shards, now, 1)
        items = [
            claim
            for shard, (_, answer) in zip(shards, answers, strict=True)
            if answer is not None
            for claim in _again_of(request, shard.queue, answer)
        ]
        return Claims(items, answers[0][0], answers[0][0])

    async def _ask_again(
        self, request: ClaimRequest, shards: Sequence[Shard], now: int | str, is_all: int
    ) -> list[list[Any]]:
        common: list[Argument] = [now, request.worker, request.nonce, is_all]
        calls = [
            ServerCall("claim_repeat", [head_key(shard)], [*common, shard.queue.shards], reads=True) for shard in shards
        ]
        answers: list[list[Any]] = []
        for shard, answer in zip(shards, await self._client.call_each(calls), strict=True):
            if isinstance(answer, ScriptRefusal):
                raise refused([shard], answer) from answer
            if isinstance(answer, HeadraceError):
                raise answer
            answers.append(answer)
        return answers

    async def _claim_each(self, request: ClaimRequest, shards: Sequence[Shard], now: int | str, now_ms: int) -> Claims:
        items: list[Claim] = []
        times: list[int] = []
        bytes_left = CLAIM_BYTES_MAX
        for position, shard in enumerate(shards):
            if len(items) == request.limit or bytes_left <= 0:
                times.append(items[-1].claimed_at_ms)
                break
            try:
                part, flags = await self._claim(request, [shard], now, request.limit - len(items), bytes_left)
            except StoreUnavailable:
                if not items:
                    raise
                # What was handed out counts; the rest is asked for again at once.
                times.append(items[-1].claimed_at_ms)
                break
            except OutcomeUnknown as lost:
                raise OutcomeUnknown(str(lost), known=items) from lost
            items += part.items
            now_ms = part.now_ms  # each master has a clock of its own; the last one heard is the closest to the present
            bytes_left -= sum(len(claim.record.payload) for claim in part.items)
            if flags == _LEFT and Shard(shard.queue.fail_queue, shard.index) in shards[:position]:
                times.append(now_ms)  # the fail queue was visited before
            if part.next_at_ms is not None:
                times.append(part.next_at_ms)
        return Claims(items, min(times, default=None), now_ms)


def refused(shards: Sequence[Shard], refusal: ScriptRefusal) -> HeadraceError:
    """The error that a caller gets for a shard that knows another number of shards."""
    known, _, index = refusal.details.partition(" ")
    return wrong_shards(shards[int(index or 1) - 1].queue, int(known))
