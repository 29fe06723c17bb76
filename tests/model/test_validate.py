"""Refusals show a bounded part of a value, in bounded time."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from headrace.model.claim import ClaimRequest, Facts, Lease, Settlement
from headrace.model.errors import BadConfig, Refused
from headrace.model.feed import FeedConfig, FeedCursor, FeedName, ItemPosition, Publication
from headrace.model.job import Job, new_job
from headrace.model.names import Queue, Shard
from headrace.model.outcome import Done, Failed, JobError, Released, Retried
from headrace.model.policy import DEFAULT_CONFIG, Policy
from headrace.model.times import duration_ms, instant_ms
from headrace.model.validate import bounded_repr, nearest

CHARS_MAX = 500
SECONDS_MAX = 0.5
QUEUE = Queue("mail")
LEASE = Lease(QUEUE, "a", "nonce-of-mine.1", 1, 5)
FACTS = Facts("send", None, 5, "worker-1", 0, 0, 2, 0)


def nested(depth: int) -> list[Any]:
    """Lists within each other."""
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


class Rude:
    """Cannot even be shown."""

    def __repr__(self) -> str:
        raise ValueError("no")


HUGE: Mapping[str, Any] = {
    "text": "x" * 2_000_000,
    "unprintable text": "\n" * 2_000_000,
    "bytes": b"\xff" * 2_000_000,
    "list": list(range(2_000_000)),
    "list of texts": ["x" * 2_000_000] * 3,
    "dict": {str(number): "y" for number in range(500_000)},
    "dict of texts": {"x" * 2_000_000: "y" * 2_000_000},
    "set": set(range(500_000)),
    "nested": nested(100_000),
    "number": 1 << 20_000_000,
    "negative number": -(1 << 20_000_000),
    "struct": Publication(b"x" * 200_000, "a"),
    "rude": Rude(),
}
CALLS: Mapping[str, Callable[[Any], object]] = {
    "Queue.name": Queue,
    "Queue.tenant": lambda value: Queue("mail", value),
    "Queue.shards": lambda value: Queue("mail", "acme", value),
    "Shard.queue": lambda value: Shard(value, 0),
    "Shard.index": lambda value: Shard(QUEUE, value),
    "Job.queue": lambda value: Job(queue=value, id="a", kind="k"),
    "Job.id": lambda value: Job(queue=QUEUE, id=value, kind="k"),
    "Job.kind": lambda value: Job(queue=QUEUE, id="a", kind=value),
    "Job.payload": lambda value: Job(queue=QUEUE, id="a", kind="k", payload=value),
    "Job.run_at_ms": lambda value: Job(queue=QUEUE, id="a", kind="k", run_at_ms=value),
    "Job.delay_ms": lambda value: Job(queue=QUEUE, id="a", kind="k", delay_ms=value),
    "Job.policy": lambda value: Job(queue=QUEUE, id="a", kind="k", policy=value),
    "Job.tag": lambda value: Job(queue=QUEUE, id="a", kind="k", tag=value),
    "Job.headers": lambda value: Job(queue=QUEUE, id="a", kind="k", headers=value),
    "Job.headers of": lambda value: Job(queue=QUEUE, id="a", kind="k", headers={"a": value}),
    "Job.idempotency_key": lambda value: Job(queue=QUEUE, id="a", kind="k", idempotency_key=value),
    "Job.idempotency_ttl_ms": lambda value: Job(queue=QUEUE, id="a", kind="k", idempotency_ttl_ms=value),
    "Job.update_payload": lambda value: Job(queue=QUEUE, id="a", kind="k", update_payload=value),
    "Job.update_run_at": lambda value: Job(queue=QUEUE, id="a", kind="k", update_run_at=value),
    "new_job key": lambda value: new_job(QUEUE, "k", fresh_id="a", idempotency_key=value),
    "Policy.priority": lambda value: Policy(priority=value),
    "Policy.expires_at_ms": lambda value: Policy(expires_at_ms=value),
    "ClaimRequest.queues": lambda value: ClaimRequest(queues=[value], worker="w", nonce="nonce-of-mine"),
    "ClaimRequest.worker": lambda value: ClaimRequest(queues=[QUEUE], worker=value, nonce="nonce-of-mine"),
    "ClaimRequest.nonce": lambda value: ClaimRequest(queues=[QUEUE], worker="w", nonce=value),
    "ClaimRequest.limit": lambda value: ClaimRequest(queues=[QUEUE], worker="w", nonce="nonce-of-mine", limit=value),
    "Settlement.lease": lambda value: Settlement(value, Done(), FACTS),
    "Settlement.outcome": lambda value: Settlement(LEASE, value, FACTS),
    "Settlement.facts": lambda value: Settlement(LEASE, Done(), value),
    "Settlement.lease.token": lambda value: Settlement(Lease(QUEUE, "a", value, 1, 5), Done(), FACTS),
    "Settlement.facts.kind": lambda value: Settlement(LEASE, Done(), Facts(value, None, 5, "w", 0, 0, 2, 0)),
    "Settlement.facts.run_ms": lambda value: Settlement(LEASE, Done(), Facts("k", None, 5, "w", 0, 0, 2, value)),
    "Done.result": Done,
    "Retried.error": Retried,
    "Retried.delay_ms": lambda value: Retried(JobError("Boom"), value),
    "Failed.error": Failed,
    "Released.delay_ms": Released,
    "JobError.cls": JobError,
    "JobError.message": lambda value: JobError("Boom", value),
    "configure field": lambda value: DEFAULT_CONFIG.changed({value: 1}),
    "configure flag": lambda value: DEFAULT_CONFIG.changed({"paused": value}),
    "configure number": lambda value: DEFAULT_CONFIG.changed({"priority": value}),
    "feed configure field": lambda value: FeedConfig().changed({value: 1}),
    "feed configure number": lambda value: FeedConfig().changed({"items_max": value}),
    "FeedName": FeedName,
    "FeedName.tenant": lambda value: FeedName("news", value),
    "FeedCursor.parse": FeedCursor.parse,
    "ItemPosition.where": ItemPosition,
    "ItemPosition.id": lambda value: ItemPosition("before", value),
    "Publication.id": lambda value: Publication(b"1", value),
    "Publication.item": lambda value: Publication(value, "a"),
    "duration": lambda value: duration_ms("delay", value),
    "instant": lambda value: instant_ms("run_at", value),
}


def refusal_of(call: Callable[[Any], object], value: Any) -> str:
    """The refusal of a value; only unhashable values may raise errors of Python itself."""
    with pytest.raises((Refused, BadConfig, TypeError)) as raised:
        call(value)
    if isinstance(raised.value, TypeError):
        raised.match("unhashable")
        return "what cannot be hashed names nothing"
    return str(raised.value)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", HUGE)
def test_a_refusal_of_a_huge_value_is_short_and_soon(call: str, name: str) -> None:
    started_at = time.process_time()

    message = refusal_of(CALLS[call], HUGE[name])

    assert len(message) <= CHARS_MAX
    assert len(message.split()) > 3
    assert time.process_time() - started_at < SECONDS_MAX


@pytest.mark.parametrize("name", HUGE)
def test_the_shown_part_of_a_value_is_bounded(name: str) -> None:
    started_at = time.process_time()

    shown = bounded_repr(HUGE[name])

    assert 0 < len(shown) <= 80
    assert time.process_time() - started_at < SECONDS_MAX


@pytest.mark.parametrize(
    "value", ["mail", "a'b", b"ab", 7, -7, True, None, 1.5, [], [1, "a"], (1, 2), {}, {"a": [1]}, {1, 2}, Queue("a")]
)
def test_short_values_are_shown_unchanged(value: object) -> None:
    assert bounded_repr(value) == repr(value) or isinstance(value, Queue)


def test_a_long_name_is_not_compared_with_known_ones() -> None:
    started_at = time.process_time()

    found = nearest("x" * 100_000, [f"setting_{number}" for number in range(100)])

    assert found is None
    assert time.process_time() - started_at < SECONDS_MAX
    assert nearest("priorty", ["paused", "priority"]) == "priority"
