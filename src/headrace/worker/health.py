"""The health of a worker: whether it consumes, its running jobs, and the counts of its events."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Literal

from msgspec import Struct, field

from headrace.model.names import Queue
from headrace.model.results import LEASE_REFUSALS, Settled
from headrace.worker.context import Progress
from headrace.worker.events import (
    ActiveDelivery,
    AssumedSettled,
    JobsClaimed,
    JobsFinished,
    LeaseLost,
    Lifecycle,
    WorkerEvent,
)

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


BUCKETS_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 10e3, 30e3, 60e3, 120e3, 300e3, 600e3)
BUCKETS = tuple(ms / 1000 for ms in BUCKETS_MS)
"""Seconds: from the pick-up time of an idle worker to the run time of a report."""
UNKNOWN = "unknown"
"""The label of kinds without a handler: else a sender could create any number of labels."""

Labels = tuple[str, ...]


class Histogram(Struct):
    """The number of values in each bucket, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    sum_ms: int = 0

    def add(self, ms: int) -> None:
        """Count a value."""
        self.counts[bisect_left(BUCKETS_MS, ms)] += 1
        self.sum_ms += ms

    def merge(self, other: "Histogram") -> None:
        """Add the values of another histogram."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.sum_ms += other.sum_ms

    def rows(self) -> Iterator[tuple[str, float]]:
        """The buckets as Prometheus expects them: cumulative."""
        so_far = 0
        for bound, count in zip([*map(str, BUCKETS), "+Inf"], list(self.counts), strict=True):
            so_far += count
            yield bound, so_far


class WorkerCounts(Struct):
    """A listener that counts on the worker's loop. Reading it from another thread is safe."""

    claimed: dict[Labels, int] = field(default_factory=Counter)
    """By tenant, queue and kind."""
    ended: dict[Labels, int] = field(default_factory=Counter)
    """By tenant, queue, kind and outcome."""
    lost: dict[Labels, int] = field(default_factory=Counter)
    """By tenant and queue, as are `waits`."""
    outages: int = 0
    waits: dict[Labels, Histogram] = {}
    runs: dict[Labels, Histogram] = {}
    """By tenant, queue and kind."""

    def __call__(self, event: WorkerEvent) -> None:
        """Count an event."""
        match event:
            case JobsClaimed(deliveries):
                self._count_claimed(deliveries)
            case JobsFinished(deliveries, answers):
                if not all(answer.ok for answer in answers):
                    deliveries = [delivery for delivery, answer in zip(deliveries, answers, strict=True) if answer.ok]
                self._count_finished(deliveries, [answer.status for answer in answers if answer.ok])
            case AssumedSettled(delivery):
                self._count_finished([delivery], ["presumed"])
            case LeaseLost(claim):
                self.lost[_queue_labels(claim.lease.queue)] += 1
            case Lifecycle("store_lost"):
                self.outages += 1

    def add(self, other: "WorkerCounts") -> None:
        """Add the counts of another process; `other` is not changed."""
        pairs = (self.claimed, other.claimed), (self.ended, other.ended), (self.lost, other.lost)
        for mine, theirs in pairs:
            for labels, count in theirs.items():
                mine[labels] += count
        self.outages += other.outages
        for histograms, others in ((self.waits, other.waits), (self.runs, other.runs)):
            for labels, histogram in others.items():
                _histogram_of(histograms, labels).merge(histogram)

    def copy(self) -> "WorkerCounts":
        """A snapshot for another thread than the counting one."""
        # `dict` and `list` copy in one step for the interpreter: the worker goes on counting meanwhile.
        return WorkerCounts(
            dict(self.claimed),
            dict(self.ended),
            dict(self.lost),
            self.outages,
            {
                labels: Histogram(list(histogram.counts), histogram.sum_ms)
                for labels, histogram in list(self.waits.items())
            },
            {
                labels: Histogram(list(histogram.counts), histogram.sum_ms)
                for labels, histogram in list(self.runs.items())
            },
        )

    def _count_claimed(self, deliveries: Sequence[ActiveDelivery]) -> None:
        for queue, kind, group in _group_neighbours(deliveries):
            self.claimed[queue.tenant, queue.full_name, kind] += len(group)
            add = _histogram_of(self.waits, (queue.tenant, queue.full_name)).add
            for delivery in group:
                add(max(delivery.claim.claimed_at_ms - delivery.claim.record.due_since_ms, 0))

    def _count_finished(self, deliveries: Sequence[ActiveDelivery], outcomes: Sequence[str]) -> None:
        at = 0
        for queue, kind, group in _group_neighbours(deliveries):
            labels = queue.tenant, queue.full_name, kind
            for outcome, count in Counter(outcomes[at : at + len(group)]).items():
                self.ended[(*labels, outcome)] += count
            at += len(group)
            add = _histogram_of(self.runs, labels).add
            for delivery in group:
                if delivery.started_at is not None and delivery.settlement is not None:
                    add(delivery.settlement.facts.run_ms)


def _queue_labels(queue: Queue) -> tuple[str, str]:
    return queue.tenant, queue.full_name


def _group_neighbours(deliveries: Sequence[ActiveDelivery]) -> Iterator[tuple[Queue, str, Sequence[ActiveDelivery]]]:
    """The deliveries in order, neighbours of one queue and kind together: their labels are looked up once."""
    start = 0
    while start < len(deliveries):
        queue, handler = deliveries[start].claim.lease.queue, deliveries[start].handler
        end = start + 1
        while (
            end < len(deliveries) and deliveries[end].handler is handler and deliveries[end].claim.lease.queue is queue
        ):
            end += 1
        yield queue, UNKNOWN if handler is None else handler.kind, deliveries[start:end]
        start = end


def _histogram_of(histograms: dict[Labels, Histogram], labels: Labels) -> Histogram:
    found = histograms.get(labels)
    if found is None:
        found = histograms[labels] = Histogram()
    return found
