"""A handle of a job that was sent, and the wait for its result."""

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from headrace.client.codec import Codec
from headrace.model.errors import JobCancelled, JobFailed, Refused
from headrace.model.job import State
from headrace.model.limits import RESULT_LOOK_MS, RESULT_NAP_MS, RESULT_NAP_MS_MAX
from headrace.model.names import Queue
from headrace.model.results import Cancellation, Found, Removed
from headrace.model.times import Duration
from headrace.stores.contract.store import Store

if TYPE_CHECKING:
    from headrace.client.client import Client  # noqa: F401 - the text "Client" below refers to it

C = TypeVar("C")
R = TypeVar("R")
REFUSALS = frozenset(("conflict", "wrong_shards", "full", "refused"))


class AnyHandle(Generic[C, R]):
    """A job by queue and id, with the status of its enqueue.

    `status` is `created`, `updated`, `blocked` (waits behind the active job of its id) or `duplicate` (its idempotency
    key was used before); of `enqueue_many` also `conflict`, `wrong_shards`, `full`, or `refused` with the message in
    `error`. A handle of a job that it did not send has the status `known`.
    """

    __slots__ = ("_client", "_codec", "_type", "error", "id", "queue", "status")

    def __init__(
        self,
        client: C,
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

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r} on {self.queue.full_name!r}: {self.status}>"


class Handle(AnyHandle["Client", R]):
    """A sent job: wait for its result, cancel it, remove it or look at it. See `status` and `error`."""

    __slots__ = ()

    async def result(self, timeout: Duration | None = None) -> R:  # noqa: ASYNC109 - its TimeoutError says more
        """Wait until the job is done and return its result; `timeout` ("30s", or seconds) bounds the wait.

        Raises `JobFailed` if the job is dead, `JobCancelled` if it was cancelled, TimeoutError if it has not ended in
        time, and `Refused`: `nothing_kept` at once if the queue keeps no results, `not_found` if the store does not
        know the job (any more).
        """
        found: R = await self._client.result(
            self.queue,
            self.id,
            timeout=timeout,
            type=self._type,
            codec=self._codec,
            blocked_job=self.status == "blocked",
        )
        return found

    async def cancel(self, *, running: bool = False) -> Cancellation:
        """End the job if it waits; with `running`, also ask an active one to stop."""
        [answer] = await self._client.cancel(self.queue, self.id, running=running)
        return answer

    async def remove(self) -> Removed:
        """Delete everything of the job, its finished job and dead letters included."""
        [answer] = await self._client.remove(self.queue, self.id)
        return answer

    async def find(self) -> Found | None:
        """Everything the store knows of the job."""
        [found] = await self._client.find(self.queue, self.id)
        return found


_OVER = (State.DONE, State.CANCELLED, State.DEAD)


async def wait_for(store: Store, queue: Queue, id: str, timeout_ms: int | None, *, blocked_job: bool) -> Found:
    """Everything the store knows of the job after it has ended; raises TimeoutError, or `Refused` if it can never end.

    A finished job counts even while the blocked job that it freed still waits, unless the wait is for the `blocked_job`
    itself."""
    loop = asyncio.get_running_loop()
    started_at = loop.time()
    pause_ms = RESULT_NAP_MS
    was_seen = was_woken = False
    while True:
        [found] = await store.reads.find(queue, [id])
        if found is None:
            raise _not_found(queue, id, was_seen)
        if found.state in _OVER or (found.finished_job is not None and not blocked_job):
            return found
        was_seen = True
        await _check_kept(store, queue, found)
        left_ms = RESULT_LOOK_MS
        if timeout_ms is not None:
            left_ms = min(left_ms, timeout_ms - round((loop.time() - started_at) * 1_000))
        if left_ms <= 0:
            raise TimeoutError(_not_ended(found))
        if found.finished_job is None and not was_woken:
            was_woken = await store.signals.ended(queue, [id], left_ms)
        else:
            # The signal comes at once: the previous delivery has ended, the blocked job has not.
            await asyncio.sleep(min(pause_ms, left_ms) / 1_000)
            pause_ms = min(pause_ms * 2, RESULT_NAP_MS_MAX)
            was_woken = False


def outcome_of(found: Found, codec: Codec, type: Any, *, blocked_job: bool) -> Any:
    """The result of a job that has ended; raises `JobFailed` or `JobCancelled` if it is not done."""
    finished_job = found.finished_job
    dead_letter = max(found.dead_letters, key=lambda dead_letter: dead_letter.key.number, default=None)
    # The finished job of the previous delivery stays if the blocked job died.
    if dead_letter is not None and (
        finished_job is None or (blocked_job and dead_letter.died_at_ms >= finished_job.ended_at_ms)
    ):
        raise JobFailed(found.id, dead_letter.reason, dead_letter.error)
    assert finished_job is not None  # an ended job has left a finished job or a dead letter
    if finished_job.state == "cancelled":
        raise JobCancelled(found.id)
    return None if finished_job.result is None else codec.decode(finished_job.result, type)


async def _check_kept(store: Store, queue: Queue, found: Found) -> None:
    config = await store.queues.configuration(queue)
    record = found.record or found.blocked_job
    pinned_ms = config.result_ttl_ms if record is None else config.result_ttl_of(record.policy)
    if pinned_ms == 0 and (config.keep_done_ms == 0 or config.keep_done_max == 0):
        raise Refused(
            "nothing_kept",
            f"queue {queue.full_name!r} keeps no finished jobs, so the result of job {found.id!r} cannot be waited for;"
            " send it with result_ttl, or set the queue's keep_done_ms and keep_done_max",
        )


def _not_found(queue: Queue, id: str, was_seen: bool) -> Refused:
    if was_seen:
        reason = "was removed, or its finished job was not kept; send it with result_ttl to keep its result for sure"
    else:
        reason = "does not exist (any more); check id, queue and tenant, or send it with result_ttl to keep its result"
    return Refused("not_found", f"job {id!r} on queue {queue.full_name!r} of tenant {queue.tenant!r} {reason}")


def _not_ended(found: Found) -> str:
    why = f" ({found.why})" if found.why else ""
    return f"job {found.id!r} has not ended in time, it is {found.state}{why}; wait longer, or try again later"
