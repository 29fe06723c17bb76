"""Enqueue: jobs are sent to their shards, and queues that are not there yet are made on the way."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from headrace.model.errors import HeadraceError, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.event import payload_text
from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.model.results import Enqueued
from headrace.stores.contract.jobs import OnEnqueued
from headrace.stores.redis.batches import ShardCall, ShardCountCache, ShardedBatch, cut, own_args, send, shards_of
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.keys import head_key
from headrace.stores.redis.packing import enqueue_arguments
from headrace.stores.redis.queues import QueueRegistry

_TRIES_MAX = 5
"""How often a queue is made that somebody else deletes at the same time."""
_CARRYING_MAX = 10_000
"""Queues that are remembered; then all are forgotten and say it again."""

_STATUSES: dict[int, Any] = {
    ord("c"): "created",
    ord("u"): "updated",
    ord("b"): "blocked",
    ord("d"): "duplicate",
    ord("k"): "conflict",
    ord("f"): "full",
    ord("w"): "wrong_shards",
}


class EnqueueCall:
    """Sends jobs, and makes their queues."""

    def __init__(self, client: RedisClient, registry: QueueRegistry, checked: ShardCountCache) -> None:
        self._client = client
        self._registry = registry
        self._checked = checked
        self._carrying: set[Queue] = set()
        """Queues that want payloads in their journals, as far as they have said so."""

    async def enqueue(self, jobs: Sequence[Job], now: int | str) -> list[Enqueued]:
        batch = ShardedBatch[Enqueued]([job.id for job in jobs])
        parts = cut(jobs, lambda job: (job.queue, job.id), self._args)
        for _ in range(_TRIES_MAX):
            parts = await self._try(batch, jobs, parts, now)
            if not parts:
                return batch.whole()
            parts = await self._create(batch, jobs, parts)
        for part in parts:
            name = part.shard.queue.full_name
            batch.lose(StoreUnavailable(f"queue {name!r} was deleted {_TRIES_MAX} times while it was made; ask again"))
        return batch.whole()

    def post(self, jobs: Sequence[Job], answered: OnEnqueued) -> bool:
        """As `enqueue`, by the server's clock, written at once and without a task; False when nothing was sent."""
        first = jobs[0]
        if len(jobs) == 1:
            shard, args = Shard(first.queue, first.queue.index_of(first.id)), self._args(jobs)
        else:
            parts = cut(jobs, lambda job: (job.queue, job.id), self._args)
            if len(parts) != 1:
                return False
            [(shard, _, args)] = parts
        call = ServerCall("enqueue", [head_key(shard)], ["", shard.queue.shards, *args])
        return self._client.post(call, partial(self._take, jobs, answered))

    def _take(self, jobs: Sequence[Job], answered: OnEnqueued, reply: Any) -> None:
        """Take the reply to what was posted. What has surely changed nothing goes the long way, which makes queues,
        loads functions and asks again."""
        found: list[Enqueued] | Exception | None = None
        try:
            if isinstance(reply, OutcomeUnknown):
                found = OutcomeUnknown(str(reply), unknown=[job.id for job in jobs])
            elif not isinstance(reply, HeadraceError) and reply[0] is not None:
                found = self._answers(jobs, jobs[0].queue, reply[0])
        except Exception as error:  # noqa: BLE001 - the connection, which others use, must not break by it
            found = error
        answered(found)

    async def _try(
        self, batch: ShardedBatch[Enqueued], jobs: Sequence[Job], parts: list[ShardCall], now: int | str
    ) -> list[ShardCall]:
        """Send parts and take the answers; returns those whose queue is not there."""

        def arguments(group: Sequence[ShardCall]) -> list[Argument]:
            return [now, *shards_of(group), *own_args(group)]

        missing: list[ShardCall] = []
        for part, reply in zip(parts, await send(self._client, "enqueue", parts, arguments), strict=True):
            if isinstance(reply, HeadraceError):
                batch.lose(reply)
            elif reply.answer is None:
                missing.append(part)
            else:
                self._answer(batch, jobs, part, reply.answer)
        return missing

    async def _create(
        self, batch: ShardedBatch[Enqueued], jobs: Sequence[Job], parts: list[ShardCall]
    ) -> list[ShardCall]:
        """Make the queues of parts; returns those that can be sent again."""
        made: dict[Queue, bool] = {}
        for part in parts:
            queue = part.shard.queue
            if queue not in made:
                try:
                    made[queue] = await self._is_made(queue)
                except HeadraceError as error:
                    made[queue] = False
                    batch.lose(error)
                    continue
            if not made[queue]:
                self._answer(batch, jobs, part, b"w" * len(part.picks))
        return [part for part in parts if made[part.shard.queue]]

    async def _is_made(self, queue: Queue) -> bool:
        try:
            await self._registry.create(queue)
        except Refused:
            return False
        return True

    def _args(self, jobs: Sequence[Job]) -> list[Argument]:
        are_distinct = len(jobs) == 1 or len({job.id for job in jobs}) == len(jobs)
        # Whether payloads are texts costs a hundredth of what it does in Lua, and nothing where nobody wants to know.
        is_asked = bool(self._carrying) and jobs[0].queue in self._carrying
        are_texts = is_asked and _are_texts([job.payload for job in jobs])
        return enqueue_arguments(jobs, are_distinct, are_texts, keeps_lines=are_distinct and not is_asked)

    def _answer(
        self, batch: ShardedBatch[Enqueued], jobs: Sequence[Job], part: ShardCall, answer: bytes | list[bytes]
    ) -> None:
        batch.fill(part.picks, self._answers([jobs[at] for at in part.picks], part.shard.queue, answer))

    def _answers(self, jobs: Sequence[Job], queue: Queue, answer: bytes | list[bytes]) -> list[Enqueued]:
        """What enqueue.lua has answered: a character for each job, a last one where it had to look into payloads, and
        with duplicates the times of their keys."""
        statuses, *times = [answer] if isinstance(answer, bytes) else answer
        if len(statuses) > len(jobs):
            statuses = statuses[:-1]
            self._note_carrying(queue)
        answers = [Enqueued(job.id, _STATUSES[status]) for job, status in zip(jobs, statuses, strict=True)]
        if times:
            duplicates = [at for at, each in enumerate(answers) if each.status == "duplicate"]
            for at, until_ms in zip(duplicates, times, strict=True):
                answers[at] = Enqueued(jobs[at].id, "duplicate", int(until_ms))
        return answers

    def _note_carrying(self, queue: Queue) -> None:
        if len(self._carrying) >= _CARRYING_MAX:
            self._carrying.clear()
        self._carrying.add(queue)


def _are_texts(payloads: list[bytes]) -> bool:
    return all(map(bytes.isascii, payloads)) or all(payload_text(payload) is not None for payload in payloads)
