"""Signals: hints that work may be there. Rows are the truth; a lost hint costs latency, never a job."""

from collections.abc import Sequence
from typing import Protocol

from headrace.model.names import Queue


class Signals(Protocol):
    """Lets an idle worker sleep until there is something to claim."""

    async def wait(self, queues: Sequence[Queue], timeout_ms: int) -> bool:
        """Return True as soon as a claim on `queues` may succeed, False after `timeout_ms`.

        Looks on entry, so nothing that was enqueued before is missed. A due time that is still ahead does not wake:
        wait no longer than until the claim's `next_at_ms`; an enqueue with an earlier time does wake.
        """
