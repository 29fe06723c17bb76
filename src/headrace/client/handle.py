"""A handle: the job that was sent, to wait for, to cancel or to look at."""

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.client.codec import Codec
from headrace.model.errors import Refused
from headrace.model.names import Queue
from headrace.model.results import Cancellation, Found, Removed
from headrace.model.times import Duration

if TYPE_CHECKING:
    from headrace.client.client import Client

R = TypeVar("R")
REFUSALS = frozenset(("conflict", "wrong_shards", "full", "refused"))


class Handle(Generic[R]):
    """A job by queue and id, with what became of its enqueue.

    `status` is `created`, `updated`, `blocked` (waits behind its active namesake) or `duplicate` (its idempotency key
    was used before); of `enqueue_many` also `conflict`, `wrong_shards`, `full`, or `refused` with the sentence in
    `error`. A handle that nobody sent, made to look at a job, has the status `known`.
    """

    __slots__ = ("_client", "_codec", "_type", "error", "id", "queue", "status")

    def __init__(
        self,
        client: "Client",
        queue: Queue,
        id: str,
        status: str = "known",
        type: Any = Any,
        codec: Codec | None = None,
        error: Refused | None = None,
    ) -> None:
        self._client = client
        self._type = type
        self._codec = codec
        self.queue = queue
        self.id = id
        self.status = status
        self.error = error

    @property
    def ok(self) -> bool:
        """Whether the store has the job."""
        return self.status not in REFUSALS

    async def result(self, timeout: Duration | None = None) -> R:  # noqa: ASYNC109 - its TimeoutError says more
        """What the handler returned, as soon as it has; `timeout` ("30s", or seconds) bounds the wait.

        Raises `JobFailed` when the job is dead, `JobCancelled` when it was cancelled, TimeoutError when it is neither
        and not done in time, and `Refused`: `nothing_kept` at once where the queue keeps no results, `not_found` where
        nothing is known of the job (any more).
        """
        found: R = await self._client.result(
            self.queue,
            self.id,
            timeout=timeout,
            type=self._type,
            codec=self._codec,
            twin=self.status == "blocked",
        )
        return found

    async def cancel(self, *, running: bool = False) -> Cancellation:
        """End the job if it waits; with `running`, also ask an active one to stop."""
        [answer] = await self._client.cancel(self.queue, self.id, running=running)
        return answer

    async def remove(self) -> Removed:
        """Delete everything of the job, its ending and letters included."""
        [answer] = await self._client.remove(self.queue, self.id)
        return answer

    async def find(self) -> Found | None:
        """All that is known of the job."""
        [found] = await self._client.find(self.queue, self.id)
        return found

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r} on {self.queue.full_name!r}: {self.status}>"
