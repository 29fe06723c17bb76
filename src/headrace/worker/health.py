"""The health of a worker: whether it consumes, its running jobs, and its totals."""

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from typing import Literal

from msgspec import Struct

from headrace.model.results import LEASE_REFUSALS, Settled
from headrace.worker.context import Progress
from headrace.worker.delivery import ActiveDelivery

_STATUS = attrgetter("status")
State = Literal["new", "running", "stopping", "stopped"]


class RunningJob(Struct, frozen=True):
    """A job whose handler is running."""

    id: str
    kind: str
    queue: str
    attempt: int
    seconds: float
    stop: str | None = None
    """The reason if it was asked to stop."""
    progress: Progress | None = None


class Totals(Struct):
    """The outcomes of all deliveries since the start."""

    claimed: int = 0
    done: int = 0
    retried: int = 0
    released: int = 0
    dead: int = 0
    cancelled: int = 0
    refused: int = 0
    """Settlements that the store refused: the lease was lost, or the settlement was applied before and its answer was
    lost."""
    lost: int = 0
    """Deliveries given up: the lease was lost, or the claim was answered too late to start them."""

    def add(self, other: "Totals") -> None:
        """Add the totals of another process."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def count(self, answers: Iterable[Settled]) -> None:
        """Count settled deliveries by status."""
        for status, count in Counter(map(_STATUS, answers)).items():
            name = "refused" if status in LEASE_REFUSALS else status
            setattr(self, name, getattr(self, name) + count)


class WorkerHealth(Struct, frozen=True):
    """The health of a worker. `ok` is proven: the store answered a claim lately or the capacity is taken, and the
    leases were extended in time."""

    ok: bool
    why: str
    """The problem in words; empty without one."""
    name: str
    state: State
    capacity: int
    free: int
    claimed_ms_ago: int | None
    """Since the store last answered a claim of this worker."""
    beaten_ms_ago: int | None
    """Since the leases were last extended."""
    totals: Totals
    running: list[RunningJob]


class ProcessHealth(Struct, frozen=True):
    """The health of one of several worker processes."""

    number: int
    pid: int | None
    """None between the death of a process and the start of the next."""
    why: str
    """The problem in words; empty without one."""
    worker: WorkerHealth | None
    """The last report of its worker; None before the first."""


class ProcessesHealth(Struct, frozen=True):
    """The health of several worker processes. `ok` means that all of them run and consume."""

    ok: bool
    why: str
    """The problem in words; empty without one."""
    name: str
    alive: int
    """Running processes."""
    restarts: int
    """Processes that were started in place of dead ones."""
    capacity: int
    """The sum over running processes, as is `free`."""
    free: int
    totals: Totals
    """Of all processes, including those that have ended."""
    processes: list[ProcessHealth]


def find_problem(
    state: State, is_full: bool, claimed_ms_ago: int | None, beaten_ms_ago: int | None, poll_ms: int, lease_ms: int
) -> str:
    """The problem of a worker in words; empty without one."""
    if state != "running":
        return f"the worker is {state}"
    if beaten_ms_ago is None or beaten_ms_ago > lease_ms:
        return f"leases were not extended for {_seconds(beaten_ms_ago)}; does the store answer?"
    # A full worker sends no claims, and consumes all the same.
    if not is_full and (claimed_ms_ago is None or claimed_ms_ago > 2 * poll_ms + 1_000):
        return f"no claim was answered for {_seconds(claimed_ms_ago)}; does the store answer, or is the loop blocked?"
    return ""


def _seconds(ms: int | None) -> str:
    return "the whole time" if ms is None else f"{ms / 1000:.1f} s"


def running_jobs(deliveries: Iterable[ActiveDelivery], now: float) -> list[RunningJob]:
    """The running jobs, oldest first."""
    return [
        RunningJob(
            delivery.claim.record.id,
            delivery.claim.record.kind,
            delivery.claim.lease.queue.full_name,
            delivery.claim.record.attempts + 1,
            round(now - (delivery.started_at or now), 3),
            "lost" if delivery.is_lost else delivery.stop,
            delivery.progress,
        )
        for delivery in deliveries
        if delivery.settlement is None
    ]
