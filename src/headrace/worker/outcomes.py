"""Turns a handler's result or exception into the outcome of its delivery."""

import asyncio
import random
from typing import Any

import msgspec

from headrace.client.arguments import Arguments
from headrace.model import outcome as model
from headrace.model.errors import Refused
from headrace.model.limits import JITTER_PPM
from headrace.model.outcome import Cancelled, Done, JobError, Outcome
from headrace.worker.events import ActiveDelivery
from headrace.worker.exceptions import HandlerEnd, Release, Retry, job_error
from headrace.worker.pools.process_pool import ChildRaised

Encoded = msgspec.Raw
"""A result that another process has encoded."""


class BadPayload(Exception):
    """The payload does not fit the handler's parameters; a retry would not help."""


class Outcomes:
    """The rules for outcomes; `rng` draws the jitter of retries, so that jobs that failed together return apart."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def of_result(self, arguments: Arguments[Any], result: Any, *, from_handler: bool = True) -> Outcome:
        """The outcome of a handler that returned. A result of middleware need not fit the annotation."""
        if result is None and (arguments.may_return_none or not from_handler):
            return _DONE
        if isinstance(result, HandlerEnd):
            return self._of_end(result)
        encode = arguments.encode_result if from_handler else arguments.codec.encode
        try:
            return Done(bytes(result) if type(result) is Encoded else encode(result))
        except Refused as refused:
            # The work is done, and a retry would return the same result: a person has to look.
            return model.Failed(JobError.of("BadResult", str(refused)))

    def of_error(self, delivery: ActiveDelivery, error: BaseException) -> Outcome | None:
        """The outcome of a handler that raised; None when its lease is lost."""
        if delivery.is_lost or delivery.stop == "lost":
            return None
        if isinstance(error, HandlerEnd):
            return self._of_end(error)
        if isinstance(error, ChildRaised) and error.how != "error":
            return self._of_child(error)
        match delivery.stop:
            case "timeout":
                limit = f"{delivery.claim.timeout_ms / 1000:g} s"
                return self._retry(JobError.of("TimedOut", f"the handler was still running after its {limit}"))
            case "cancel":
                return Cancelled()
            case "drain":
                return model.Released()
        if isinstance(error, BadPayload):
            return model.Failed(JobError.of("BadPayload", str(error)))
        if isinstance(error, ChildRaised):
            return self._retry(JobError.of(error.cls, error.message))
        return self._retry(job_error(error))

    def unknown_kind(self, message: str) -> Outcome:
        """The outcome of a job without a handler."""
        return model.Failed(JobError.of("UnknownKind", message))

    def _of_end(self, end: HandlerEnd) -> Outcome:
        match end:
            case Retry():
                return self._retry(job_error(end), end.delay_ms)
            case Release():
                return model.Released(end.delay_ms)
            case _:
                return model.Failed(job_error(end))

    def _of_child(self, raised: ChildRaised) -> Outcome:
        error = JobError.of(raised.cls, raised.message)
        match raised.how:
            case "retry":
                return self._retry(error, raised.delay_ms)
            case "release":
                return model.Released(raised.delay_ms or 0)
            case _:
                return model.Failed(error)

    def _retry(self, error: JobError, delay_ms: int | None = None) -> Outcome:
        return model.Retried(error, delay_ms, self._rng.randint(0, JITTER_PPM))


_DONE = Done()


def is_unexpected(delivery: ActiveDelivery, error: BaseException) -> bool:
    """Whether an exception is neither an outcome chosen by the handler nor a stop requested by the worker."""
    expected = isinstance(error, HandlerEnd | BadPayload) or (isinstance(error, ChildRaised) and error.how != "error")
    return not expected and not (delivery.stop is not None and isinstance(error, asyncio.CancelledError))
