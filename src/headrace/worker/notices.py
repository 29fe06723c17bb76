"""Notices: what a worker tells whoever watches it, for logs, metrics and tests."""

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from headrace.model.answers import Settled
from headrace.model.claim import Claim, Settlement

LOG = logging.getLogger("headrace.worker")


class Lifecycle(Struct, frozen=True):
    """The worker itself has come to a new state."""

    event: Literal["started", "stopping", "stopped", "store_lost", "store_back"]
    why: str = ""


class Taken(Struct, frozen=True):
    """Jobs were claimed and are about to start."""

    claims: Sequence[Claim]


class Finished(Struct, frozen=True):
    """Deliveries were settled; each answer belongs to the settlement at its place."""

    settlements: Sequence[Settlement]
    answers: Sequence[Settled]


class Raised(Struct, frozen=True):
    """A handler raised something that is not an outcome: the attempt failed."""

    claim: Claim
    error: BaseException


class Lost(Struct, frozen=True):
    """A delivery is no longer this worker's: its handler was asked to stop and its outcome does not count."""

    claim: Claim
    why: str


class Wedged(Struct, frozen=True):
    """A handler was asked to stop and goes on; its place stays taken until it ends."""

    claim: Claim
    stop: str
    seconds: float


Notice = Lifecycle | Taken | Finished | Raised | Lost | Wedged
Listener = Callable[[Notice], None]


class Notices:
    """Tells every listener, and the log what a person should read. A listener that raises is logged, and no harm."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = tuple(listeners)

    def tell(self, notice: Notice) -> None:
        """Tell it to all."""
        if not isinstance(notice, (Taken, Finished)):
            with contextlib.suppress(Exception):  # a log that fails must not cost a job its end
                _log(notice)
        for listener in self._listeners:
            try:
                listener(notice)
            except Exception:
                with contextlib.suppress(Exception):
                    LOG.exception("a listener failed on %s", type(notice).__name__)


def _log(notice: Lifecycle | Raised | Lost | Wedged) -> None:
    match notice:
        case Lifecycle(event, why):
            LOG.log(logging.WARNING if event == "store_lost" else logging.INFO, "%s%s", event, why and f": {why}")
        case Raised(claim, error):
            LOG.warning("%s failed: %s", _name(claim), type(error).__name__, exc_info=error)
        case Lost(claim, why):
            LOG.warning("%s is lost: %s", _name(claim), why)
        case Wedged(claim, stop, seconds):
            LOG.warning("%s was asked to stop (%s) %.0f s ago and goes on", _name(claim), stop, seconds)


def _name(claim: Claim) -> str:
    return f"{claim.record.kind} {claim.record.id} (attempt {claim.record.attempts + 1})"
