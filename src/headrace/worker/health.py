"""How a worker is: whether it consumes, what it holds, and what it has done."""

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from typing import Literal

from msgspec import Struct

from headrace.model.results import LEASE_REFUSALS, Settled
from headrace.worker.context import Progress
from headrace.worker.job_run import JobRun

_STATUS = attrgetter("status")
State = Literal["new", "running", "stopping", "stopped"]


class RunningJob(Struct, frozen=True):
    """A job in hand."""

    id: str
    kind: str
    queue: str
    attempt: int
    seconds: float
    stop: str | None = None
    """Why it was asked to stop, if it was."""
    progress: Progress | None = None


class Totals(Struct):
    """What became of the deliveries since the start."""

    claimed: int = 0
    done: int = 0
    retried: int = 0
    released: int = 0
    dead: int = 0
    cancelled: int = 0
    refused: int = 0
    """Settlements that the store did not take: the lease was not ours any more, or the same settlement had been taken
    already and the answer to it was lost."""
    lost: int = 0
    """Deliveries given up: their lease was lost, or their claim was answered too late to start them."""

    def add(self, other: "Totals") -> None:
        """Add those of another process."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def count(self, answers: Iterable[Settled]) -> None:
        """Count what was settled."""
        for status, count in Counter(map(_STATUS, answers)).items():
            name = "refused" if status in LEASE_REFUSALS else status
            setattr(self, name, getattr(self, name) + count)


class WorkerHealth(Struct, frozen=True):
    """A look at a worker. `ok` is proof, not hope: the store answered a claim lately, or all places are taken, and the
    leases were extended in time."""

    ok: bool
    why: str
    """What is wrong, in words; empty when nothing is."""
    name: str
    state: State
    capacity: int
    free: int
    claimed_ms_ago: int | None
    """Since the store last answered a claim of this worker."""
    beaten_ms_ago: int | None
    """Since the leases were last seen to."""
    totals: Totals
    running: list[RunningJob]


class ProcessHealth(Struct, frozen=True):
    """A look at one of several worker processes."""

    number: int
    pid: int | None
    """None while there is no process, between its death and its next start."""
    why: str
    """What is wrong, in words; empty when nothing is."""
    worker: WorkerHealth | None
    """How its worker was when it last answered; None when it never did."""


class ProcessesHealth(Struct, frozen=True):
    """A look at several worker processes. `ok` means that all of them run and consume."""

    ok: bool
    why: str
    """What is wrong, in words; empty when nothing is."""
    name: str
    alive: int
    """Processes that run."""
    restarts: int
    """Processes that were started in place of others that had died."""
    capacity: int
    """The sum of all that run, as is `free`."""
    free: int
    totals: Totals
    """Of all processes, those that have ended among them."""
    processes: list[ProcessHealth]


def verdict(
    state: State, is_full: bool, claimed_ms_ago: int | None, beaten_ms_ago: int | None, poll_ms: int, lease_ms: int
) -> str:
    """What is wrong with such a worker, in words; empty when nothing is."""
    if state != "running":
        return f"the worker is {state}"
    if beaten_ms_ago is None or beaten_ms_ago > lease_ms:
        return f"leases were not extended for {_seconds(beaten_ms_ago)}; does the store answer?"
    # Who has no place free does not ask, and is consuming all the same.
    if not is_full and (claimed_ms_ago is None or claimed_ms_ago > 2 * poll_ms + 1_000):
        return f"no claim was answered for {_seconds(claimed_ms_ago)}; does the store answer, or is the loop blocked?"
    return ""


def _seconds(ms: int | None) -> str:
    return "the whole time" if ms is None else f"{ms / 1000:.1f} s"


def jobs_in_hand(runs: Iterable[JobRun], now: float) -> list[RunningJob]:
    """What is being worked on, oldest first."""
    return [
        RunningJob(
            run.claim.record.id,
            run.claim.record.kind,
            run.claim.lease.queue.full_name,
            run.claim.record.attempts + 1,
            round(now - (run.started_at or now), 3),
            "lost" if run.is_lost else run.stop,
            run.progress,
        )
        for run in runs
        if run.settlement is None
    ]
