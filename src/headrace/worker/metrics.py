"""Metrics of a worker for Prometheus: what was claimed, how long it waited and ran, and how it ended."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from headrace.model.errors import BadConfig
from headrace.worker.counts import Histogram, Labels, WorkerCounts
from headrace.worker.events import Notice
from headrace.worker.health import ProcessesHealth, WorkerHealth
from headrace.worker.metrics_server import MetricsServer

if TYPE_CHECKING:
    from prometheus_client import Metric

PLACE, KIND = ("tenant", "queue"), ("tenant", "queue", "kind")


class Metrics:
    """A listener that counts, and a collector that Prometheus can read, with a registry of its own.

    Counting is plain arithmetic on the worker's loop; texts are made when somebody asks. One may listen to several
    workers of a program. `metrics.registry` is for programs that have a way of their own to publish it.
    """

    def __init__(self, health: Callable[[], WorkerHealth] | None = None) -> None:
        self._core = _prometheus()
        self._health = health
        self._counts = WorkerCounts()
        self.registry = self._core.CollectorRegistry()
        self.registry.register(self)

    def __call__(self, notice: Notice) -> None:
        """Take note."""
        self._counts(notice)

    def collect(self) -> "Iterable[Metric]":
        """What Prometheus is told; asked from its own thread."""
        yield from _counted(self._core, self._counts)
        if self._health is not None:
            yield from _gauges(self._core, self._health())

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


class SummedMetrics:
    """The same page for several processes: `look` brings their health, and the sums of what they have counted."""

    def __init__(self, look: "Callable[[], tuple[ProcessesHealth, WorkerCounts]]") -> None:
        self._core = _prometheus()
        self._look = look
        self._registry = self._core.CollectorRegistry()
        self._registry.register(self)

    def collect(self) -> "Iterable[Metric]":
        """What Prometheus is told; asked from its own thread."""
        health, counts = self._look()
        yield from _counted(self._core, counts)
        yield from _gauges(self._core, health)
        counter, gauge = self._core.core.CounterMetricFamily, self._core.core.GaugeMetricFamily
        yield gauge("headrace_worker_processes", "Worker processes that run.", health.alive)
        yield counter("headrace_worker_process_restarts", "Worker processes started anew.", health.restarts)

    def describe(self) -> "Iterable[Metric]":
        """Nothing, so that registering it does not look at processes that are still to come."""
        return ()

    def serve(self, host: str, port: int) -> MetricsServer:
        """Answer GET /metrics and GET /health from a thread of its own."""
        return MetricsServer(host, port, self._page, lambda: self._look()[0])

    def _page(self, accept: str) -> tuple[bytes, str]:
        encode, content_type = self._core.exposition.choose_encoder(accept)
        return encode(self._registry), content_type


def _counted(core: Any, counts: WorkerCounts) -> "Iterable[Metric]":
    yield _counter(core, "headrace_jobs_claimed", "Jobs that were claimed.", KIND, counts.claimed)
    yield _counter(core, "headrace_jobs_ended", "Deliveries that were settled.", (*KIND, "outcome"), counts.ended)
    yield _counter(core, "headrace_leases_lost", "Deliveries that were given up.", PLACE, counts.lost)
    yield _counter(core, "headrace_store_outages", "Times that the store went away.", (), {(): counts.outages})
    yield _histogram(core, "headrace_job_wait_seconds", "From due to claimed.", PLACE, counts.waits)
    yield _histogram(core, "headrace_job_run_seconds", "From start to end of a handler.", KIND, counts.runs)


def _gauges(core: Any, health: WorkerHealth | ProcessesHealth) -> "Iterable[Metric]":
    gauge = core.core.GaugeMetricFamily
    yield gauge("headrace_worker_capacity", "Units that the worker has.", health.capacity)
    yield gauge("headrace_worker_in_hand", "Units that are taken.", health.capacity - health.free)
    yield gauge("headrace_worker_up", "Whether the worker consumes.", int(health.ok))


def _counter(core: Any, name: str, about: str, labels: Labels, counts: dict[Labels, int]) -> "Metric":
    family = core.core.CounterMetricFamily(name, about, labels=labels)
    for values, count in list(counts.items()):  # one step for the interpreter: the worker goes on counting
        family.add_metric(values, count)
    return family  # type: ignore[no-any-return]


def _histogram(core: Any, name: str, about: str, labels: Labels, spreads: dict[Labels, Histogram]) -> "Metric":
    family = core.core.HistogramMetricFamily(name, about, labels=labels)
    for values, spread in list(spreads.items()):
        family.add_metric(values, list(spread.rows()), spread.sum_ms / 1000)
    return family  # type: ignore[no-any-return]


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
