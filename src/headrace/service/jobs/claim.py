"""Claims jobs. Claims that wait on the same queues stand in line, so that one job wakes one of them."""

import secrets
from typing import Any

from headrace.model.claim import ClaimRequest, Claims
from headrace.model.limits import POLL_MS_MAX
from headrace.model.validate import check_int
from headrace.service.operation import Call, Operation, Reply, scopes
from headrace.service.polls import first_of
from headrace.service.queue_names import queues_of_fields
from headrace.wire.claims import ClaimAnswer, ClaimBody
from headrace.wire.queues import ReadyAnswer, WaitBody

_NONCE_BYTES = 16


async def claim(call: Call) -> Reply:
    """Claim jobs at once, or as soon as there are some."""
    body: ClaimBody = call.body
    check_int("wait_ms", body.wait_ms, 0, POLL_MS_MAX)
    request = await claim_request(call, body)
    if call.now_ms is not None or not body.wait_ms:
        claims = await call.store.jobs.claim(request, now_ms=call.now_ms)
    else:
        # A claim that is cancelled, since its client has left, gives its jobs back.
        found = await first_of(call.service.parked.claim(request, body.wait_ms), *wait_ends(call))
        claims = Claims([], None, call.service.clock.now_ms()) if found is None else found
    return Reply(200, ClaimAnswer.of(claims, packed=call.packed))


async def claim_request(call: Call, body: ClaimBody) -> ClaimRequest:
    """The store's request for a claim, in the name of the caller."""
    given = call.service.settings.worker_names_as_given
    return ClaimRequest(
        queues=await queues_of_fields(call, body.queues),
        worker=body.worker if given else call.caller.worker(body.worker),
        nonce=secrets.token_urlsafe(_NONCE_BYTES) if body.nonce is None else body.nonce,
        limit=body.limit,
        lease_ms=body.lease_ms,
    )


def wait_ends(call: Call) -> list[Any]:
    """What ends a wait early: the client leaves, or the service stops."""
    return [*([] if call.gone is None else [call.gone]), call.service.shutdown.wait()]


async def wait(call: Call) -> Reply:
    """Wait until a claim may succeed."""
    body: WaitBody = call.body
    check_int("timeout_ms", body.timeout_ms, 0, POLL_MS_MAX)
    queues = await queues_of_fields(call, body.queues)
    ready = await first_of(call.store.signals.wait(queues, body.timeout_ms), *wait_ends(call))
    return Reply(200, ReadyAnswer(bool(ready)))


OPERATIONS = (
    Operation(
        name="claim",
        method="POST",
        path="/claims",
        summary="Claim jobs under a lease; with wait_ms, as soon as there are some.",
        scopes=scopes("claim"),
        handler=claim,
        body=ClaimBody,
        answers={200: ClaimAnswer},
        problems=("too_many_polls", "wrong_shards"),
        is_poll=True,
        rate="write",
    ),
    Operation(
        name="wait",
        method="POST",
        path="/queues/wait",
        summary="Wait until a claim may succeed.",
        scopes=scopes("claim"),
        handler=wait,
        body=WaitBody,
        answers={200: ReadyAnswer},
        problems=("too_many_polls",),
        is_poll=True,
    ),
)
