"""Claims jobs. Claims that wait on the same queues stand in line, so that one job wakes one of them."""

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from headrace.model.claim import ClaimRequest, Claims
from headrace.model.clock import monotonic_ms
from headrace.model.limits import POLL_MS_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Released
from headrace.model.validate import check_int
from headrace.service.operation import Call, Operation, Reply, scopes
from headrace.service.polls import first_of
from headrace.service.queue_names import queues_of_fields
from headrace.wire.claims import ClaimAnswer, ClaimBody
from headrace.wire.queues import ReadyAnswer, WaitBody

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_NONCE_BYTES = 16


async def claim(call: Call) -> Reply:
    """Claim jobs at once, or as soon as there are some."""
    body: ClaimBody = call.body
    check_int("wait_ms", body.wait_ms, 0, POLL_MS_MAX)
    request = await claim_request(call, body)
    claims = await call.store.jobs.claim(request, now_ms=call.now_ms)
    if not claims.items and body.wait_ms:
        claims = await _claim_in_line(call, request, claims, body.wait_ms)
    if claims.items and call.gone is not None and call.gone.done():
        await _release(call, claims)
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


async def _claim_in_line(call: Call, request: ClaimRequest, claims: Claims, wait_ms: int) -> Claims:
    """The claims of a request that waits for its turn, then for jobs; empty ones when its time is over."""
    deadline_ms = monotonic_ms() + wait_ms
    lines: ClaimLines = call.service.shared.setdefault("claims", ClaimLines())
    async with lines.enter(request.queues) as turn:
        if not await first_of(turn.acquire(), *wait_ends(call), asyncio.sleep(wait_ms / 1_000)):
            return claims
        try:
            return await _claim_when_ready(call, request, claims, deadline_ms)
        finally:
            turn.release()


async def _claim_when_ready(call: Call, request: ClaimRequest, claims: Claims, deadline_ms: int) -> Claims:
    while (left_ms := deadline_ms - monotonic_ms()) > 0:
        pause_ms = left_ms
        if claims.next_at_ms is not None:
            pause_ms = min(left_ms, max(claims.next_at_ms - claims.now_ms, 0))
        wait = call.store.signals.wait(request.queues, pause_ms)
        if await first_of(wait, *wait_ends(call)) is None:
            break
        claims = await call.store.jobs.claim(request)
        if claims.items:
            break
    return claims


def wait_ends(call: Call) -> list[Any]:
    """What ends a wait early: the client leaves, or the service stops."""
    return [*([] if call.gone is None else [call.gone]), call.service.shutdown.wait()]


async def _release(call: Call, claims: Claims) -> None:
    """Give back the jobs of a client that has left, uncharged."""
    await call.store.jobs.settle([each.settle(Released()) for each in claims.items])


class ClaimLines:
    """Lets one claim of each set of queues wait for jobs, the others for their turn, first come, first served."""

    def __init__(self) -> None:
        self._lines: dict[tuple[Queue, ...], tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def enter(self, queues: Sequence[Queue]) -> "AsyncIterator[asyncio.Lock]":
        """The lock of the line for these queues."""
        key = tuple(sorted(queues))
        turn, members = self._lines.get(key, (asyncio.Lock(), 0))
        self._lines[key] = turn, members + 1
        try:
            yield turn
        finally:
            _, members = self._lines[key]
            if members == 1:
                del self._lines[key]
            else:
                self._lines[key] = turn, members - 1


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
