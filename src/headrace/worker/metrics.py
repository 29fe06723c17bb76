"""Metrics of a worker for Prometheus: what was claimed, how long it waited and ran, and how it ended."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace.model.errors import BadConfig
from headrace.model.names import Queue
from headrace.worker.health import WorkerHealth
from headrace.worker.notices import Finished, Lifecycle, Lost, Notice, Presumed, Taken
from headrace.worker.run import Run
from headrace.worker.scraping import MetricsServer

if TYPE_CHECKING:
    from prometheus_client import Metric

_BUCKETS_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 10e3, 30e3, 60e3, 120e3, 300e3, 600e3)
BUCKETS = tuple(ms / 1000 for ms in _BUCKETS_MS)
"""Seconds: from what an idle worker needs to pick a job up to what a report takes."""
UNKNOWN = "unknown"
"""The kind of jobs that the worker has no handler for: whoever sends them must not be able to make up labels."""

Labels = tuple[str, ...]


class _Spread:
    """How many values fell into which bucket, and their sum."""

    __slots__ = ("counts", "sum_ms")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.sum_ms = 0

    def add(self, ms: int) -> None:
        """Count a value."""
        self.counts[bisect_left(_BUCKETS_MS, ms)] += 1
        self.sum_ms += ms

    def rows(self) -> Iterator[tuple[str, float]]:
        """The buckets as Prometheus wants them: each with all that is below."""
        so_far = 0
        for bound, count in zip([*map(str, BUCKETS), "+Inf"], list(self.counts), strict=True):
            so_far += count
            yield bound, so_far


class Metrics:
    """A listener that counts, and a collector that Prometheus can read, with a registry of its own.

    Counting is plain arithmetic on the worker's loop; texts are made when somebody asks. One may listen to several
    workers of a program. `metrics.registry` is for programs that have a way of their own to publish it.
    """

    def __init__(self, health: Callable[[], WorkerHealth] | None = None) -> None:
        self._core = _prometheus()
        self._health = health
        self._claimed: Counter[Labels] = Counter()
        self._ended: Counter[Labels] = Counter()
        self._lost: Counter[Labels] = Counter()
        self._outages = 0
        self._waits: dict[Labels, _Spread] = {}
        self._runs: dict[Labels, _Spread] = {}
        self.registry = self._core.CollectorRegistry()
        self.registry.register(self)

    def __call__(self, notice: Notice) -> None:
        """Take note."""
        match notice:
            case Taken(runs):
                self._take(runs)
            case Finished(runs, answers):
                if not all(answer.ok for answer in answers):
                    runs = [run for run, answer in zip(runs, answers, strict=True) if answer.ok]
                self._end(runs, [answer.status for answer in answers if answer.ok])
            case Presumed(run):
                self._end([run], ["presumed"])
            case Lost(claim):
                self._lost[_place(claim.lease.queue)] += 1
            case Lifecycle("store_lost"):
                self._outages += 1

    def _take(self, runs: Sequence[Run]) -> None:
        for queue, kind, several in _alike(runs):
            self._claimed[queue.tenant, queue.full_name, kind] += len(several)
            add = _spread(self._waits, (queue.tenant, queue.full_name)).add
            for run in several:
                add(max(run.claim.claimed_at_ms - run.claim.record.due_since_ms, 0))

    def _end(self, runs: Sequence[Run], outcomes: Sequence[str]) -> None:
        at = 0
        for queue, kind, several in _alike(runs):
            labels = queue.tenant, queue.full_name, kind
            for outcome, count in Counter(outcomes[at : at + len(several)]).items():
                self._ended[(*labels, outcome)] += count
            at += len(several)
            add = _spread(self._runs, labels).add
            for run in several:
                if run.started_at is not None and run.settlement is not None:
                    add(run.settlement.facts.run_ms)

    def collect(self) -> "Iterable[Metric]":
        """What Prometheus is told; asked from its own thread."""
        place, kind = ("tenant", "queue"), ("tenant", "queue", "kind")
        counter = self._counter
        yield counter("headrace_jobs_claimed", "Jobs that were claimed.", kind, self._claimed)
        yield counter("headrace_jobs_ended", "Deliveries that were settled.", (*kind, "outcome"), self._ended)
        yield counter("headrace_leases_lost", "Deliveries that were given up.", place, self._lost)
        yield counter("headrace_store_outages", "Times that the store went away.", (), {(): self._outages})
        yield self._histogram("headrace_job_wait_seconds", "From due to claimed.", place, self._waits)
        yield self._histogram("headrace_job_run_seconds", "From start to end of a handler.", kind, self._runs)
        if self._health is not None:
            health = self._health()
            gauge = self._core.core.GaugeMetricFamily
            yield gauge("headrace_worker_capacity", "Units that the worker has.", health.capacity)
            yield gauge("headrace_worker_in_hand", "Units that are taken.", health.capacity - health.free)
            yield gauge("headrace_worker_up", "Whether the worker consumes.", int(health.ok))

    def serve(
        self, host: str = "127.0.0.1", port: int = 0, health: Callable[[], WorkerHealth] | None = None
    ) -> MetricsServer:
        """Answer GET /metrics and GET /health from a thread of its own, also while the worker's loop is blocked.

        `health` is `worker.health`, of a worker that may still be to come. Port 0 chooses a free one: `server.port`.
        """
        self._health = health or self._health
        return MetricsServer(host, port, self._page, self._health)

    def _page(self, accept: str) -> tuple[bytes, str]:
        encode, content_type = self._core.exposition.choose_encoder(accept)
        return encode(self.registry), content_type

    def _counter(self, name: str, about: str, labels: Labels, counts: dict[Labels, int]) -> "Metric":
        family = self._core.core.CounterMetricFamily(name, about, labels=labels)
        for values, count in list(counts.items()):  # one step for the interpreter: the worker goes on counting
            family.add_metric(values, count)
        return family  # type: ignore[no-any-return]

    def _histogram(self, name: str, about: str, labels: Labels, spreads: dict[Labels, _Spread]) -> "Metric":
        family = self._core.core.HistogramMetricFamily(name, about, labels=labels)
        for values, spread in list(spreads.items()):
            family.add_metric(values, list(spread.rows()), spread.sum_ms / 1000)
        return family  # type: ignore[no-any-return]


def _place(queue: Queue) -> tuple[str, str]:
    return queue.tenant, queue.full_name


def _alike(runs: Sequence[Run]) -> Iterator[tuple[Queue, str, Sequence[Run]]]:
    """The runs in order, neighbours of one queue and kind together: labels are looked up once for them."""
    start = 0
    while start < len(runs):
        queue, handler = runs[start].claim.lease.queue, runs[start].handler
        end = start + 1
        while end < len(runs) and runs[end].handler is handler and runs[end].claim.lease.queue is queue:
            end += 1
        yield queue, UNKNOWN if handler is None else handler.kind, runs[start:end]
        start = end


def _spread(spreads: dict[Labels, _Spread], labels: Labels) -> _Spread:
    found = spreads.get(labels)
    if found is None:
        found = spreads[labels] = _Spread()
    return found


def _prometheus() -> Any:
    try:
        import prometheus_client
        import prometheus_client.core
        import prometheus_client.exposition
    except ImportError as error:
        raise BadConfig(
            "metrics need the package prometheus-client, which is not there; pip install 'headrace[metrics]'"
        ) from error
    return prometheus_client
