"""Counts what a worker does, as plain numbers: metrics are made of them, and several processes' numbers are added."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct, field

from headrace.model.names import Queue
from headrace.worker.events import AssumedSettled, JobsClaimed, JobsFinished, LeaseLost, Lifecycle, Notice
from headrace.worker.job_run import JobRun

BUCKETS_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 10e3, 30e3, 60e3, 120e3, 300e3, 600e3)
BUCKETS = tuple(ms / 1000 for ms in BUCKETS_MS)
"""Seconds: from what an idle worker needs to pick a job up to what a report takes."""
UNKNOWN = "unknown"
"""The kind of jobs that the worker has no handler for: whoever sends them must not be able to make up labels."""

Labels = tuple[str, ...]


class Histogram(Struct):
    """How many values fell into which bucket, and their sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    sum_ms: int = 0

    def add(self, ms: int) -> None:
        """Count a value."""
        self.counts[bisect_left(BUCKETS_MS, ms)] += 1
        self.sum_ms += ms

    def add_spread(self, other: "Histogram") -> None:
        """Count all values of another."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.sum_ms += other.sum_ms

    def rows(self) -> Iterator[tuple[str, float]]:
        """The buckets as Prometheus wants them: each with all that is below."""
        so_far = 0
        for bound, count in zip([*map(str, BUCKETS), "+Inf"], list(self.counts), strict=True):
            so_far += count
            yield bound, so_far


class WorkerCounts(Struct):
    """A listener that counts: plain arithmetic on the worker's loop. Reading it from another thread is safe."""

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

    def __call__(self, notice: Notice) -> None:
        """Take note."""
        match notice:
            case JobsClaimed(runs):
                self._take(runs)
            case JobsFinished(runs, answers):
                if not all(answer.ok for answer in answers):
                    runs = [run for run, answer in zip(runs, answers, strict=True) if answer.ok]
                self._end(runs, [answer.status for answer in answers if answer.ok])
            case AssumedSettled(run):
                self._end([run], ["presumed"])
            case LeaseLost(claim):
                self.lost[_place(claim.lease.queue)] += 1
            case Lifecycle("store_lost"):
                self.outages += 1

    def add(self, other: "WorkerCounts") -> None:
        """Add what another process has counted; `other` is left as it is."""
        pairs = (self.claimed, other.claimed), (self.ended, other.ended), (self.lost, other.lost)
        for mine, theirs in pairs:
            for labels, count in theirs.items():
                mine[labels] += count
        self.outages += other.outages
        for spreads, others in ((self.waits, other.waits), (self.runs, other.runs)):
            for labels, spread in others.items():
                _spread(spreads, labels).add_spread(spread)

    def copied(self) -> "WorkerCounts":
        """The numbers of this moment; for another thread than the one that counts."""
        # `dict` and `list` copy in one step for the interpreter: the worker goes on counting meanwhile.
        return WorkerCounts(
            dict(self.claimed),
            dict(self.ended),
            dict(self.lost),
            self.outages,
            {labels: Histogram(list(spread.counts), spread.sum_ms) for labels, spread in list(self.waits.items())},
            {labels: Histogram(list(spread.counts), spread.sum_ms) for labels, spread in list(self.runs.items())},
        )

    def _take(self, runs: Sequence[JobRun]) -> None:
        for queue, kind, several in _alike(runs):
            self.claimed[queue.tenant, queue.full_name, kind] += len(several)
            add = _spread(self.waits, (queue.tenant, queue.full_name)).add
            for run in several:
                add(max(run.claim.claimed_at_ms - run.claim.record.due_since_ms, 0))

    def _end(self, runs: Sequence[JobRun], outcomes: Sequence[str]) -> None:
        at = 0
        for queue, kind, several in _alike(runs):
            labels = queue.tenant, queue.full_name, kind
            for outcome, count in Counter(outcomes[at : at + len(several)]).items():
                self.ended[(*labels, outcome)] += count
            at += len(several)
            add = _spread(self.runs, labels).add
            for run in several:
                if run.started_at is not None and run.settlement is not None:
                    add(run.settlement.facts.run_ms)


def _place(queue: Queue) -> tuple[str, str]:
    return queue.tenant, queue.full_name


def _alike(runs: Sequence[JobRun]) -> Iterator[tuple[Queue, str, Sequence[JobRun]]]:
    """The runs in order, neighbours of one queue and kind together: labels are looked up once for them."""
    start = 0
    while start < len(runs):
        queue, handler = runs[start].claim.lease.queue, runs[start].handler
        end = start + 1
        while end < len(runs) and runs[end].handler is handler and runs[end].claim.lease.queue is queue:
            end += 1
        yield queue, UNKNOWN if handler is None else handler.kind, runs[start:end]
        start = end


def _spread(spreads: dict[Labels, Histogram], labels: Labels) -> Histogram:
    found = spreads.get(labels)
    if found is None:
        found = spreads[labels] = Histogram()
    return found
