"""Summaries of calls and answers, for the trace of a seed."""

from typing import Any

from headrace.model.claim import Claim, ClaimRequest, Claims, Lease, Settlement
from headrace.model.errors import HeadraceError
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.model.results import Cancellation, Enqueued, Extended, Settled, Turned


def summarize(value: Any) -> str:
    """A call or an answer in few words."""
    match value:
        case HeadraceError():
            return f"{type(value).__name__}({value})"
        case list() | tuple():
            return "[" + ", ".join(summarize(each) for each in value) + "]"
        case Claims():
            return f"{summarize(value.items)} next {value.next_at_ms}"
        case Turned():
            return f"{summarize(value.settled)} {summarize(value.claimed)} next {value.next_at_ms}"
        case Claim():
            return f"{value.record.id}#{value.lease.fence}"
        case Settlement():
            return f"{value.lease.id}#{value.lease.fence} {value.outcome}"
        case Enqueued() | Extended() | Settled() | Cancellation():
            return f"{value.id} {value.status}"
        case ClaimRequest():
            return f"{value.limit} of {summarize(list(value.queues))} by {value.nonce[:6]}"
        case Lease():
            return f"{value.id}#{value.fence}"
        case Job():
            return f"{value.id} {value.kind}"
        case Queue():
            return value.full_name
        case _:
            return str(value)[:120]
