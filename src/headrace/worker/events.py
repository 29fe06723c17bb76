"""Notices: what a worker tells whoever watches it, for logs, metrics and tests."""

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any, Literal

from msgspec import Struct

from headrace.model.claim import Claim, Settlement
from headrace.model.results import Settled
from headrace.worker.context import FIELDS
from headrace.worker.job_run import JobRun
from headrace.worker.log_fields import JOB_LOG, WORKER_LOG, of_claim, of_error

LOG = WORKER_LOG


class Lifecycle(Struct, frozen=True):
    """The worker itself has come to a new state."""

    event: Literal["started", "stopping", "stopped", "store_lost", "store_back"]
    why: str = ""


class JobsClaimed(Struct, frozen=True):
    """Jobs were claimed and are about to start."""

    runs: Sequence[JobRun]

    @property
    def claims(self) -> list[Claim]:
        """What was claimed."""
        return [run.claim for run in self.runs]


class JobsFinished(Struct, frozen=True):
    """Deliveries were settled; each answer belongs to the run at its place."""

    runs: Sequence[JobRun]
    answers: Sequence[Settled]

    @property
    def settlements(self) -> list[Settlement]:
        """What each was settled with."""
        return [settlement_of(run) for run in self.runs]


class CallbackRaised(Struct, frozen=True):
    """A handler raised something that is not an outcome: the attempt failed."""

    claim: Claim
    error: BaseException


class LeaseLost(Struct, frozen=True):
    """A delivery is no longer this worker's: its handler was asked to stop and its outcome does not count."""

    claim: Claim
    why: str


class AssumedSettled(Struct, frozen=True):
    """The answer to a settlement was lost, and sent again the store says that the job is not active: it was settled the
    first time, most likely."""

    run: JobRun


class HandlerStuck(Struct, frozen=True):
    """A handler was asked to stop and goes on; its place stays taken until it ends."""

    claim: Claim
    stop: str
    seconds: float


Notice = Lifecycle | JobsClaimed | JobsFinished | CallbackRaised | LeaseLost | AssumedSettled | HandlerStuck
Listener = Callable[[Notice], None]


class WorkerEvents:
    """Tells every listener, and the log what a person should read. A listener that raises is logged, and no harm."""

    def __init__(self, listeners: Sequence[Listener], worker: str = "") -> None:
        self._listeners = tuple(listeners)
        self._worker = worker

    def tell(self, notice: Notice) -> None:
        """Tell it to all."""
        if not isinstance(notice, (JobsClaimed, JobsFinished)):
            with contextlib.suppress(Exception):  # a log that fails must not cost a job its end
                self._log(notice)
        for listener in self._listeners:
            try:
                listener(notice)
            except Exception:
                with contextlib.suppress(Exception):
                    LOG.exception("a listener failed on %s", type(notice).__name__)

    def _log(self, notice: Lifecycle | CallbackRaised | LeaseLost | AssumedSettled | HandlerStuck) -> None:
        is_calm = isinstance(notice, Lifecycle) and notice.event != "store_lost"
        level = logging.INFO if is_calm else logging.WARNING
        logger = WORKER_LOG if isinstance(notice, Lifecycle) else JOB_LOG
        if not logger.isEnabledFor(level):
            return
        error = notice.error if isinstance(notice, CallbackRaised) else None
        text, fields = _told(notice, self._worker)
        # Formatters that are not ours find the stack trace where they look for it.
        logger.log(level, "%s", text, exc_info=error, extra={FIELDS: fields})


def _told(
    notice: Lifecycle | CallbackRaised | LeaseLost | AssumedSettled | HandlerStuck, worker: str
) -> tuple[str, dict[str, Any]]:
    """A notice for people, and as fields."""
    match notice:
        case Lifecycle(event, why):
            return f"{event}{why and f': {why}'} ({worker})", {"event": event, "worker": worker, "reason": why}
        case CallbackRaised(claim, error):
            fields = {"event": "raised", **of_claim(claim), **of_error(error)}
            return f"{_name(claim)} failed: {type(error).__name__}", fields
        case LeaseLost(claim, why):
            return f"{_name(claim)} is lost: {why}", {"event": "lost", **of_claim(claim), "reason": why}
        case AssumedSettled(run):
            outcome = settlement_of(run).outcome.__struct_config__.tag
            text = f"{_name(run.claim)} is over, most likely with {outcome}: the answer to its settlement was lost"
            return text, {"event": "presumed", **of_claim(run.claim), "outcome": outcome}
        case HandlerStuck(claim, stop, seconds):
            text = f"{_name(claim)} was asked to stop ({stop}) {seconds:.0f} s ago and goes on"
            return text, {"event": "wedged", **of_claim(claim), "reason": stop, "seconds": round(seconds)}


def _name(claim: Claim) -> str:
    return f"{claim.record.kind} {claim.record.id} (attempt {claim.record.attempts + 1})"


def settlement_of(run: JobRun) -> Settlement:
    """What a run that has ended is settled with."""
    assert run.settlement is not None  # it was put
    return run.settlement
