"""Enqueues jobs: sends them to their shards, and creates the queues that do not exist yet."""

from collections.abc import Sequence
from functools import partial
from struct import Struct
from typing import Any

import msgspec

from headrace.model.errors import HeadraceError, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.event import payload_text
from headrace.model.job import Job, UpdateRunAt
from headrace.model.names import Queue, Shard
from headrace.model.policy import NO_POLICY
from headrace.model.results import Enqueued
from headrace.stores.contract.jobs import OnEnqueued
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.fanout import ShardCall, ShardedBatch, call_batch, group_by_shard
from headrace.stores.redis.journal import pack_enqueued
from headrace.stores.redis.keys import head_key
from headrace.stores.redis.packing import BODY_TAIL, pack_head, pack_plain_head, pack_uint48
from headrace.stores.redis.queues import QueueRegistry

_CREATE_TRIES_MAX = 5
"""How often a queue is created that another client deletes at the same time."""
_CARRYING_MAX = 10_000
"""Queues that are remembered; beyond, all are forgotten and learned again."""

_STATUSES: dict[int, Any] = {
    ord("c"): "created",
    ord("u"): "updated",
    ord("b"): "blocked",
    ord("d"): "duplicate",
    ord("k"): "conflict",
    ord("f"): "full",
    ord("w"): "wrong_shards",
}
_UPDATE_RUN_AT_FLAGS = {
    UpdateRunAt.ALWAYS: b"a",
    UpdateRunAt.NEVER: b"n",
    UpdateRunAt.IF_LATER: b"l",
    UpdateRunAt.IF_EARLIER: b"e",
}
_BATCH_HEAD = Struct(">HHBBI")
"""The number of jobs and of templates, whether ids differ, whether payloads are texts, and the bytes of all lines."""
_pack_headers = msgspec.msgpack.Encoder().encode


class EnqueueCall:
    """Sends jobs, and creates their queues."""

    def __init__(self, client: RedisClient, registry: QueueRegistry) -> None:
        self._client = client
        self._registry = registry
        self._carrying: set[Queue] = set()
        """Queues that keep payloads in their journals, as far as their answers have shown it."""

    async def enqueue(self, jobs: Sequence[Job], now: int | str) -> list[Enqueued]:
        """Send jobs shard by shard; those whose queue does not exist are sent again once it is created."""
        batch = ShardedBatch[Enqueued]([job.id for job in jobs])
        calls = self._shard_calls(jobs)
        for _ in range(_CREATE_TRIES_MAX):
            missing: list[ShardCall[Job]] = []
            for call, reply in zip(calls, await call_batch(self._client, "enqueue", [now], calls), strict=True):
                if isinstance(reply, HeadraceError):
                    batch.add_error(reply)
                elif reply.answer is None:
                    missing.append(call)
                else:
                    batch.add_answers(call.positions, self._answers_of(call.items, call.shard.queue, reply.answer))
            if not missing:
                return batch.result()
            calls = await self._create_queues(missing, batch)
        for call in calls:
            name = call.shard.queue.full_name
            batch.add_error(
                StoreUnavailable(f"queue {name!r} was deleted {_CREATE_TRIES_MAX} times meanwhile; try again")
            )
        return batch.result()

    def enqueue_nowait(self, jobs: Sequence[Job], on_answer: OnEnqueued) -> bool:
        """As `enqueue`, by the server's clock, written at once and without a task; False when nothing was sent."""
        first = jobs[0]
        if len(jobs) == 1:
            shard, args = Shard(first.queue, first.queue.index_of(first.id)), self._args(jobs)
        else:
            calls = self._shard_calls(jobs)
            if len(calls) != 1:
                return False
            [(shard, _, _, args)] = calls
        call = ServerCall("enqueue", [head_key(shard)], ["", shard.queue.shards, *args])
        return self._client.call_nowait(call, partial(self._on_reply, jobs, on_answer))

    def _on_reply(self, jobs: Sequence[Job], on_answer: OnEnqueued, reply: Any) -> None:
        """Pass on the answers to a call without a task; None when it certainly changed nothing: then `enqueue` creates
        the queue, loads the functions or repeats the call."""
        result: list[Enqueued] | Exception | None = None
        try:
            if isinstance(reply, OutcomeUnknown):
                result = OutcomeUnknown(str(reply), unknown=[job.id for job in jobs])
            elif not isinstance(reply, HeadraceError) and reply[0] is not None:
                result = self._answers_of(jobs, jobs[0].queue, reply[0])
        except Exception as error:  # noqa: BLE001 - the connection, which others use, must not break by it
            result = error
        on_answer(result)

    def _shard_calls(self, jobs: Sequence[Job]) -> list[ShardCall[Job]]:
        groups = group_by_shard(jobs, lambda job: (job.queue, job.id))
        return [ShardCall(shard, positions, items, self._args(items)) for shard, positions, items in groups]

    def _args(self, jobs: Sequence[Job]) -> list[Argument]:
        are_distinct = len(jobs) == 1 or len({job.id for job in jobs}) == len(jobs)
        # Whether payloads are texts costs a hundredth of what it does in Lua, and matters to a carrying queue only.
        is_carrying = bool(self._carrying) and jobs[0].queue in self._carrying
        are_texts = is_carrying and _are_texts([job.payload for job in jobs])
        return enqueue_args(jobs, are_distinct, are_texts, packs_lines=are_distinct and not is_carrying)

    def _answers_of(self, jobs: Sequence[Job], queue: Queue, answer: bytes | list[bytes]) -> list[Enqueued]:
        """The answers of enqueue.lua: a character for each job, one more when it had to check payloads, and with
        duplicates the times of their keys."""
        statuses, *times = [answer] if isinstance(answer, bytes) else answer
        if len(statuses) > len(jobs):
            statuses = statuses[:-1]
            self._add_carrying(queue)
        answers = [Enqueued(job.id, _STATUSES[status]) for job, status in zip(jobs, statuses, strict=True)]
        if times:
            duplicates = [at for at, each in enumerate(answers) if each.status == "duplicate"]
            for at, until_ms in zip(duplicates, times, strict=True):
                answers[at] = Enqueued(jobs[at].id, "duplicate", int(until_ms))
        return answers

    def _add_carrying(self, queue: Queue) -> None:
        if len(self._carrying) >= _CARRYING_MAX:
            self._carrying.clear()
        self._carrying.add(queue)

    async def _create_queues(
        self, calls: Sequence[ShardCall[Job]], batch: ShardedBatch[Enqueued]
    ) -> list[ShardCall[Job]]:
        """Create the queues of these calls; returns the calls that can be sent again."""
        is_created: dict[Queue, bool] = {}
        for call in calls:
            queue = call.shard.queue
            if queue not in is_created:
                try:
                    is_created[queue] = await self._create_queue(queue)
                except HeadraceError as error:
                    is_created[queue] = False
                    batch.add_error(error)
                    continue
            if not is_created[queue]:
                batch.add_answers(call.positions, [Enqueued(job.id, "wrong_shards") for job in call.items])
        return [call for call in calls if is_created[call.shard.queue]]

    async def _create_queue(self, queue: Queue) -> bool:
        """Whether the queue exists now; False when it has another number of shards."""
        try:
            await self._registry.create(queue)
        except Refused:
            return False
        return True


def enqueue_args(jobs: Sequence[Job], are_distinct: bool, are_texts: bool, *, packs_lines: bool) -> list[Argument]:
    """Jobs as enqueue.lua takes them: their packed journal lines where possible, their templates, then each job. A
    template is the head of a body and the members of a line that jobs of one kind, tag and policy share."""
    templates: dict[tuple[bytes, str], int] = {}
    args: list[Argument] = []
    picks: list[int] = []
    sizes: list[int] = []
    kind, tag, policy, index, number = "", None, None, 0, b""
    for job in jobs:
        # Most jobs of a call are of one template, and share the objects of its parts.
        if job.kind != kind or job.tag != tag or job.policy is not policy:
            kind, tag, policy = job.kind, job.tag, job.policy
            template = pack_plain_head(kind, tag) if policy is NO_POLICY else pack_head(kind, tag, policy)
            index = templates.setdefault(template, len(templates))
            number = (index + 1).to_bytes(2)
        payload = job.payload
        size = len(payload)
        headers = _pack_headers(job.headers) if job.headers else b""
        flags = _update_flags(job)
        if flags:
            packs_lines = False
        picks.append(index)
        sizes.append(size)
        args += (
            job.id,
            BODY_TAIL.pack(size, len(headers)) + payload + headers,
            number + flags if flags else number,
        )
    lines, size = pack_enqueued([job.id for job in jobs], list(templates), picks, sizes) if packs_lines else (b"", 0)
    head = _BATCH_HEAD.pack(len(jobs), len(templates), are_distinct, are_texts, size)
    return [head, lines, *[part for template in templates for part in template], *args]


def _update_flags(job: Job) -> bytes:
    """The options of a job besides its body, if any: flags of an update, due time, idempotency key."""
    if (
        job.run_at_ms is None
        and job.delay_ms is None
        and job.idempotency_key is None
        and job.update_run_at is None
        and job.update_payload
        and job.update_policy
        and not job.reset_counts
    ):
        return b""
    if job.run_at_ms is not None:
        mode, number = b"t", job.run_at_ms
    else:
        mode, number = b"d", job.delay_ms or 0
    updates = b"%d%d%d" % (job.update_payload, job.update_policy, job.reset_counts)
    flags = _UPDATE_RUN_AT_FLAGS[job.run_at_flag] + updates + mode + pack_uint48(number)
    if job.idempotency_key is None:
        return flags
    ttl_ms = 0 if job.idempotency_ttl_ms is None else job.idempotency_ttl_ms + 1
    return flags + pack_uint48(ttl_ms) + job.fingerprint.encode() + job.idempotency_key.encode()


def _are_texts(payloads: list[bytes]) -> bool:
    return all(map(bytes.isascii, payloads)) or all(payload_text(payload) is not None for payload in payloads)
