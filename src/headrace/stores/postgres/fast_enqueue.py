"""The fast path of enqueue, for jobs that are all new, and the cache of queues that all fast paths share."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headrace.model.event import EventRecord, encode_lines, payload_text
from headrace.model.job import Job
from headrace.model.names import Queue, Shard
from headrace.model.policy import QueueConfig
from headrace.stores.engine.row_codec import pack_body
from headrace.stores.engine.step import order_key_of
from headrace.stores.postgres.arrays import blobs, numbers, texts
from headrace.stores.postgres.connection import Connection
from headrace.stores.postgres.sql import sql
from headrace.stores.shared.sharding import by_shard
from headrace.stores.shared.waiters import Name, name_of

QUEUES_MAX = 1_024
"""As many queues as a busy process uses; beyond it, the cache is emptied."""


class NotFastPath(Exception):
    """The fast path does not apply; the transitions decide."""


class QueueMissing(NotFastPath):
    """The queue does not exist yet: the transitions create it, and the next call is usual again."""


class NotPlain(NotFastPath):
    """A settlement needs to read its jobs before it can be written."""


class CachedQueue(msgspec.Struct, frozen=True):
    """A queue as it was last read."""

    queue_id: int
    text: str
    """The configuration as it is stored: `config` is valid as long as it is the same."""
    config: QueueConfig
    shard_ids: list[int]


class DueShard(NamedTuple):
    """A shard with jobs that are due."""

    known: CachedQueue
    shard_id: int


class JobsDue(NotFastPath):
    """Jobs of a shard are due, and must be made ready before a claim."""

    def __init__(self, shard: DueShard) -> None:
        super().__init__()
        self.shard = shard


class QueueCache:
    """The queues that this process has used, shared by its threads."""

    def __init__(self) -> None:
        self._known: dict[Name, CachedQueue] = {}

    def get(self, connection: Connection, queue: Queue) -> CachedQueue:
        """The queue, read when it is not cached; raises when it does not exist or has another number of shards."""
        name = name_of(queue)
        known = self._known.get(name)
        if known is None:
            found = connection.execute(sql("queue_find"), name).fetchone()
            if found is None:
                raise QueueMissing
            queue_id, text, shard_ids = found
            known = CachedQueue(queue_id, text, msgspec.json.decode(text, type=QueueConfig), shard_ids)
            if len(self._known) >= QUEUES_MAX:
                self._known = {}
            self._known[name] = known
        if len(known.shard_ids) != queue.shards:
            raise NotFastPath
        return known

    def forget(self) -> None:
        """Empty the cache: something has changed."""
        self._known = {}


UNKNOWN_MS = 2**64 - 1
"""Stands in a packed record for the instant that the server puts in."""
_UNKNOWN = b"\xff" * 8  # no text in UTF-8 holds these bytes, and no other number is as large
DUE_NOW_MS = -1
"""Stands in a line for the instant of the call."""


def around_time(packed: bytes) -> tuple[bytes, bytes]:
    """The bytes before and after the time that the server puts in."""
    head, _, tail = packed.partition(_UNKNOWN)
    return head, tail


Calls = list[tuple[Shard, tuple[object, ...]]]
"""The arguments for each shard."""


def prepare(connection: Connection, queues: QueueCache, jobs: Sequence[Job], now_ms: int | None) -> Calls:
    """The arguments to send; reads queues and the clock where needed, and changes nothing."""
    if any(job.idempotency_key is not None for job in jobs):
        raise NotFastPath
    groups = list(by_shard(jobs, lambda job: (job.queue, job.id)))
    known = {shard.queue: queues.get(connection, shard.queue) for shard, _ in groups}
    if now_ms is None and (len(groups) > 1 or any(job.delay_ms for job in jobs)):
        now_ms = int(connection.execute(sql("now"), binary=True).fetchall()[0][0])
    return [(shard, _arguments(known[shard.queue], shard, [jobs[i] for i in picks], now_ms)) for shard, picks in groups]


def enqueue_new(connection: Connection, calls: Calls) -> dict[Shard, int]:
    """Enqueue jobs that are all new, in one round trip; returns the number of calls in each shard's inbox."""
    if len(calls) == 1:
        found = [connection.execute(sql("enqueue_new"), calls[0][1], binary=True)]
    else:
        with connection.pipeline():  # one transaction, since there is no other statement among them
            found = [connection.execute(sql("enqueue_new"), arguments, binary=True) for _, arguments in calls]
    return {shard: int(each.fetchall()[0][1]) for (shard, _), each in zip(calls, found, strict=True)}


def _arguments(known: CachedQueue, shard: Shard, jobs: list[Job], now_ms: int | None) -> tuple[object, ...]:
    config = known.config
    heads, tails, lines, order_keys, runs_at_ms = [], [], [], [], []
    for job in jobs:
        priority = config.priority_of(job.policy)
        run_at_ms = now_ms + job.delay_ms if now_ms is not None and job.delay_ms else job.run_at_ms
        head, tail = around_time(pack_body(job, UNKNOWN_MS))
        heads.append(head)
        tails.append(tail)
        order_keys.append(order_key_of(priority, 0))
        runs_at_ms.append(run_at_ms)
        lines.append(
            EventRecord(
                "enqueued",
                job.id,
                job.kind,
                job.tag,
                priority,
                run_at_ms=DUE_NOW_MS if run_at_ms is None else run_at_ms,
                payload_bytes=len(job.payload),
                payload=payload_text(job.payload) if config.journal_payloads else None,
            )
        )
    return (
        known.queue_id,
        known.text,
        known.shard_ids[shard.index],
        now_ms,
        config.waiting_max,
        texts([job.id for job in jobs]),
        numbers(order_keys),
        numbers(runs_at_ms),
        blobs(heads),
        blobs(tails),
        blobs([job.payload for job in jobs]),
        encode_lines(lines).decode(),
    )
