"""Names queues and shards in requests and answers: none of them has a place for a tenant."""

from typing import Any

from msgspec import Struct

from headrace.model.names import FAIL_QUEUE_SUFFIX, Queue
from headrace.model.policy import QueueConfig
from headrace.model.results import Counts, QueueOverview


class QueueBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A queue with its number of shards; without it, the number that the queue has, or one for a new queue."""

    name: str
    shards: int | None = None
    fail_queue: bool = False

    @property
    def full_name(self) -> str:
        """The name with `.fail` for a fail queue."""
        return self.name + FAIL_QUEUE_SUFFIX if self.fail_queue else self.name


QueueField = str | QueueBody
"""A queue by its full name, or with its shards."""


def queue_body(queue: Queue) -> QueueBody:
    """A queue with its shards, for a request."""
    return QueueBody(name=queue.name, shards=queue.shards, fail_queue=queue.is_fail_queue)


class QueueAnswer(Struct, frozen=True, kw_only=True):
    """A queue with its counts; `config` where one queue was asked for."""

    queue: str
    shards: int
    fail_queue: bool
    version: int
    paused: bool
    counts: Counts
    last_seq: int | None = None
    """The events that its journals have counted, over all shards."""
    config: QueueConfig | None = None

    @staticmethod
    def of(overview: QueueOverview) -> "QueueAnswer":
        """A queue of a list."""
        queue = overview.queue
        return QueueAnswer(
            queue=queue.full_name,
            shards=queue.shards,
            fail_queue=queue.is_fail_queue,
            version=overview.version,
            paused=overview.paused,
            counts=overview.counts,
            last_seq=overview.last_seq,
        )

    def overview(self, tenant: str) -> QueueOverview:
        """The overview of a tenant's queue."""
        queue = Queue.parse(self.queue, tenant, self.shards)
        return QueueOverview(queue, self.version, self.paused, self.counts, self.last_seq or 0)


class QueueRows(Struct, frozen=True):
    """A page of queues."""

    rows: list[QueueAnswer]
    cursor: str | None


class ShardsAnswer(Struct, frozen=True):
    """Queues by name with their shards, without counts."""

    rows: list[QueueBody]
    cursor: str | None


class WaitBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Waits until a claim on one of the queues may succeed."""

    queues: list[QueueField]
    timeout_ms: int


class ReadyAnswer(Struct, frozen=True):
    """Whether a claim may succeed."""

    ready: bool


class PurgeBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Drops waiting jobs."""

    limit: int = 1_000
    shards: int | None = None


class PurgeAnswer(Struct, frozen=True):
    """The number of dropped jobs; `more` asks for another call."""

    purged: int
    more: bool


class DeleteAnswer(Struct, frozen=True):
    """Whether rows of a deleted queue are left: call again."""

    more: bool


ConfigChanges = dict[str, Any]
"""Settings of a queue or feed, field to value; the model checks them."""
