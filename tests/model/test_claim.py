"""Claims: checks of requests, leases and settlements."""

from typing import Any

import pytest

from headrace.model.claim import Claim, ClaimRequest, Delivery, Lease, Settlement
from headrace.model.errors import Refused
from headrace.model.job import Record
from headrace.model.limits import DURATION_MS_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Done

QUEUE = Queue("mail", "acme")


def request(**fields: Any) -> ClaimRequest:
    """A request of which only these fields matter."""
    return ClaimRequest(**{"queues": [QUEUE], "worker": "worker-1", "nonce": "nonce-001", **fields})


def test_a_request_is_for_one_job_and_thirty_seconds_by_default() -> None:
    """T25: the defaults."""
    assert (request().limit, request().lease_ms) == (1, 30_000)


@pytest.mark.parametrize(
    ("fields", "reason", "message"),
    [
        ({"queues": []}, "bad_queue", "a claim names no queue; give at least one"),
        ({"queues": [QUEUE] * 65}, "batch_too_large", "one call takes at most 64 queues; found 65; send them in parts"),
        ({"worker": ""}, "bad_worker", "worker must have 1 to 128 characters; found 0: ''"),
        ({"worker": "a\n"}, "bad_worker", "holds a character that cannot be printed"),
        ({"nonce": "short"}, "bad_nonce", "nonce must have 8 to 64 characters; found 5: 'short'"),
        ({"nonce": "x" * 65}, "bad_nonce", "nonce must have 8 to 64 characters; found 65"),
        ({"limit": 0}, "bad_limit", "limit must be from 1 to 1,000; found 0"),
        ({"limit": 1_001}, "bad_limit", "limit must be from 1 to 1,000; found 1,001"),
        ({"limit": "5"}, "bad_limit", "limit must be a whole number; found str '5'"),
        ({"lease_ms": 0}, "bad_lease_ms", f"lease_ms must be from 1 to {DURATION_MS_MAX:,}; found 0"),
        ({"lease_ms": -5}, "bad_lease_ms", "found -5"),
        ({"lease_ms": DURATION_MS_MAX + 1}, "bad_lease_ms", "lease_ms must be from 1 to"),
        ({"lease_ms": 1.5}, "bad_lease_ms", "lease_ms must be a whole number; found float 1.5"),
    ],
)
def test_a_request_that_can_never_be_right_is_refused_in_one_sentence(
    fields: dict[str, Any], reason: str, message: str
) -> None:
    """T13, C14: leaseFor <= 0, too many at once, no queue."""
    with pytest.raises(Refused) as refused:
        request(**fields)

    assert refused.value.reason == reason
    assert message in str(refused.value)


def test_a_token_is_the_nonce_and_the_fence() -> None:
    """T6: neither alone is enough."""
    tokens = {Delivery(fence, nonce, "w", 0, 1).token for fence in (1, 2) for nonce in ("nonce-001", "nonce-002")}

    assert len(tokens) == 4


def test_a_settlement_carries_the_facts_of_its_delivery() -> None:
    record = Record(
        id="a",
        kind="send",
        payload=b"[1]",
        run_at_ms=500,
        enqueued_at_ms=400,
        tag="t",
    )
    claim = Claim(Lease(QUEUE, "a", "nonce-001.1", 1, 2_000), record, "worker-1", 7, 0, 800)

    settlement = claim.settle(Done(b"1"), run_ms=55)

    facts = settlement.facts
    assert (settlement.lease, settlement.outcome) == (claim.lease, Done(b"1"))
    assert (facts.kind, facts.tag, facts.priority, facts.worker) == ("send", "t", 7, "worker-1")
    assert (facts.enqueued_at_ms, facts.wait_ms, facts.run_ms, facts.payload_bytes) == (400, 300, 55, 3)


def test_a_claim_that_came_before_its_job_was_due_has_not_waited_a_negative_time() -> None:
    """A store whose clock was set back must not count below zero."""
    record = Record(id="a", kind="send", payload=b"", run_at_ms=900, enqueued_at_ms=900)
    claim = Claim(Lease(QUEUE, "a", "nonce-001.1", 1, 2_000), record, "worker-1", 5, 0, 800)

    assert claim.settle(Done()).facts.wait_ms == 0


def test_a_settlement_without_an_outcome_is_refused() -> None:
    record = Record(id="a", kind="send", payload=b"", run_at_ms=0, enqueued_at_ms=0)
    claim = Claim(Lease(QUEUE, "a", "nonce-001.1", 1, 2_000), record, "worker-1", 5, 0, 0)

    with pytest.raises(Refused, match="'done' is not an outcome"):
        Settlement(claim.lease, "done", claim.settle(Done()).facts)  # type: ignore[arg-type]
