"""Claims jobs: arguments of the functions, and the meaning of their answers."""

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
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.errors import ScriptRefusal
from headrace.stores.redis.fanout import ShardCountCache, call_groups, refusal_error
from headrace.stores.redis.keys import head_key
from headrace.stores.redis.packing import HEAD_AT, NO_SHAPE, record_of, shape_of
from headrace.stores.redis.queues import FailQueueRegistration
from headrace.stores.shared.sharding import visiting_order

_CREATED, _USED = ord("1"), b"2"
"""The effect of a death on the fail queue of a shard: created it, or put a job on the existing one."""


def shards_to_visit(request: ClaimRequest) -> list[Shard]:
    """The shards of a claim in the order of visiting."""
    queues = dict.fromkeys(request.queues)  # one named twice is still one
    return [shard for queue in queues for shard in visiting_order(queue, request.nonce)]


def request_args(request: ClaimRequest, limit: int, bytes_left: int) -> list[Argument]:
    """The arguments of a request."""
    return [request.worker, request.nonce, request.lease_ms, limit, bytes_left]


def claim_call(
    request: ClaimRequest, shards: Sequence[Shard], now: int | str, limit: int, bytes_left: int
) -> ServerCall:
    """The call of the claim function."""
    args = [now, *request_args(request, limit, bytes_left), *(shard.queue.shards for shard in shards)]
    return ServerCall("claim", [head_key(shard) for shard in shards], args)


def claims_of(request: ClaimRequest, shards: Sequence[Shard], reply: list[Any]) -> Claims:
    """The claims of a reply."""
    flags, was_answered, now_ms, next_at_ms, *answers = reply
    items: list[Claim] = []
    for shard, answer in zip(shards, answers, strict=True):
        if answer is not None:
            items += (
                _repeated_of(request, shard.queue, answer)
                if was_answered
                else _claimed_of(request, shard.queue, answer, now_ms)
            )
    if any(
        flag == _CREATED and shard.queue.fail_queue in request.queues for flag, shard in zip(flags, shards, strict=True)
    ):
        next_at_ms = now_ms  # a fail queue that was created here has not been visited
    return Claims(items, next_at_ms, now_ms)


def is_cut_short(request: ClaimRequest, shards: Sequence[Shard], reply: list[Any], created: Sequence[Queue]) -> bool:
    """Whether a claim reached its limit before it came to shards of a fail queue that the same call has created. Such
    shards do not exist yet, and are claimed from at once all the same, as on stores that create them together."""
    left = request.limit
    for shard, answer in zip(shards, reply[4:], strict=True):
        if left == 0 and answer is None and shard.queue in created:
            return True
        left -= 0 if answer is None else len(answer[3]) // 2
    return False


def _claimed_of(request: ClaimRequest, queue: Queue, answer: list[Any], now_ms: int) -> list[Claim]:
    queue_priority, queue_timeout_ms, first_fence, flat = answer
    nonce, worker, expires_at_ms = request.nonce, request.worker, now_ms + request.lease_ms
    claims: list[Claim] = []
    head, read, payload_at, kind, tag, policy = NO_SHAPE
    priority, timeout_ms = queue_priority, queue_timeout_ms
    for fence, at in enumerate(range(0, len(flat), 2), first_fence):
        id, body = flat[at].decode(), flat[at + 1]
        # Neighbours mostly share one shape: comparing it costs a fifth of reading it.
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


def _repeated_of(request: ClaimRequest, queue: Queue, answer: list[Any]) -> list[Claim]:
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
    """Claims on one server in one call; on a cluster shard by shard, after asking all shards for the nonce."""

    def __init__(self, client: RedisClient, shard_counts: ShardCountCache, fail_queues: FailQueueRegistration) -> None:
        self._client = client
        self._shard_counts = shard_counts
        self._fail_queues = fail_queues
        self._registrations: set[asyncio.Task[None]] = set()

    def claim_nowait(self, request: ClaimRequest, on_answer: OnClaimed) -> bool:
        """As `claim`, by the server's clock, written at once and without a task; False when nothing was sent."""
        shards = shards_to_visit(request)
        call = claim_call(request, shards, "", request.limit, CLAIM_BYTES_MAX)
        return self._client.call_nowait(call, partial(self._on_reply, request, shards, on_answer))

    def _on_reply(self, request: ClaimRequest, shards: Sequence[Shard], on_answer: OnClaimed, reply: Any) -> None:
        """Pass on the claims of a call without a task; None when nothing was changed, so that `claim` repeats it."""
        result: Claims | Exception | None = None
        try:
            if isinstance(reply, OutcomeUnknown):
                result = reply
            elif not isinstance(reply, HeadraceError):
                if _CREATED in reply[0]:
                    task = asyncio.create_task(self._read_later(request, shards, on_answer, reply))
                    self._registrations.add(task)
                    task.add_done_callback(self._registrations.discard)
                    return
                result = self._read(request, shards, reply)
        except Exception as error:  # noqa: BLE001 - the connection, which others use, must not break by it
            result = error
        on_answer(result)

    async def _read_later(
        self, request: ClaimRequest, shards: Sequence[Shard], on_answer: OnClaimed, reply: list[Any]
    ) -> None:
        on_answer(await self.read(request, shards, reply))

    async def claim(self, request: ClaimRequest, now: int | str) -> Claims:
        shards = shards_to_visit(request)
        if not self._client.clustered or len(shards) == 1:
            claims, _ = await self._claim(request, shards, now, request.limit, CLAIM_BYTES_MAX)
            return claims
        await self._shard_counts.check(list(dict.fromkeys(request.queues)))
        answers = await self._find_nonce(request, shards, now, 0)
        if any(isinstance(answer, list) for _, answer in answers):
            return await self._repeat(request, shards, now)
        existing = [shard for shard, (_, answer) in zip(shards, answers, strict=True) if answer is not None]
        return await self._claim_each(request, existing, now, answers[0][0])

    async def _claim(
        self, request: ClaimRequest, shards: Sequence[Shard], now: int | str, limit: int, bytes_left: int
    ) -> tuple[Claims, bytes]:
        """The claims, and for each shard what deaths did to its fail queue."""
        try:
            reply = await self._client.call(claim_call(request, shards, now, limit, bytes_left))
        except ScriptRefusal as refusal:
            raise refusal_error(shards, refusal) from refusal
        return await self.read(request, shards, reply), reply[0]

    async def read(self, request: ClaimRequest, shards: Sequence[Shard], reply: list[Any]) -> Claims:
        """The claims of a reply; registers the fail queues that deaths have created."""
        if _CREATED in reply[0]:
            await self._fail_queues.register(
                [shard.queue for shard, flag in zip(shards, reply[0], strict=True) if flag == _CREATED]
            )
        return self._read(request, shards, reply)

    def _read(self, request: ClaimRequest, shards: Sequence[Shard], reply: list[Any]) -> Claims:
        for shard, answer in zip(shards, reply[4:], strict=True):
            if answer is not None:
                self._shard_counts.add(shard.queue)
        return claims_of(request, shards, reply)

    async def _repeat(self, request: ClaimRequest, shards: Sequence[Shard], now: int | str) -> Claims:
        """The claims of an earlier call with this nonce."""
        answers = await self._find_nonce(request, shards, now, 1)
        items = [
            claim
            for shard, (_, answer) in zip(shards, answers, strict=True)
            if answer is not None
            for claim in _repeated_of(request, shard.queue, answer)
        ]
        return Claims(items, answers[0][0], answers[0][0])

    async def _find_nonce(
        self, request: ClaimRequest, shards: Sequence[Shard], now: int | str, is_all: int
    ) -> list[list[Any]]:
        """For each shard its clock and whether it knows the nonce; with `is_all` also its claims."""
        common: list[Argument] = [now, request.worker, request.nonce, is_all]
        groups = [([shard], [*common, shard.queue.shards]) for shard in shards]
        return await call_groups(self._client, "claim_repeat", groups, reads=True)

    async def _claim_each(self, request: ClaimRequest, shards: Sequence[Shard], now: int | str, now_ms: int) -> Claims:
        items: list[Claim] = []
        times: list[int] = []
        bytes_left = CLAIM_BYTES_MAX
        for position, shard in enumerate(shards):
            if len(items) == request.limit or bytes_left <= 0:
                times.append(items[-1].claimed_at_ms)
                break
            try:
                claims, flags = await self._claim(request, [shard], now, request.limit - len(items), bytes_left)
            except StoreUnavailable:
                if not items:
                    raise
                # The claimed jobs count; the worker claims the rest at once.
                times.append(items[-1].claimed_at_ms)
                break
            except OutcomeUnknown as error:
                raise OutcomeUnknown(str(error), known=items) from error
            items += claims.items
            now_ms = claims.now_ms  # each master has its own clock; the last answer is the closest to the present
            bytes_left -= sum(len(claim.record.payload) for claim in claims.items)
            if flags == _USED and Shard(shard.queue.fail_queue, shard.index) in shards[:position]:
                times.append(now_ms)  # the fail queue was visited before
            if claims.next_at_ms is not None:
                times.append(claims.next_at_ms)
        return Claims(items, min(times, default=None), now_ms)
