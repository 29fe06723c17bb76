"""Metrics of a worker for Prometheus, and the HTTP server for them and for the worker's health."""

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from headrace.client.queue_metrics import QueueMetrics
from headrace.model.errors import BadConfig
from headrace.model.limits import QUEUE_METRICS_WAIT_S, SCRAPE_SECONDS_MAX
from headrace.model.names import DEFAULT_TENANT
from headrace.stores.contract.store import Store
from headrace.worker.events import WorkerEvent
from headrace.worker.health import Histogram, Labels, ProcessesHealth, WorkerCounts, WorkerHealth

if TYPE_CHECKING:
    from prometheus_client import Metric

CLOSE_SECONDS = 0.1
"""How often the server checks whether to close."""
LOG = logging.getLogger("headrace.worker")
Page = Callable[[str], tuple[bytes, str]]
"""Takes the Accept header; returns a body and its type."""
Health = Callable[[], WorkerHealth | ProcessesHealth]
PLACE, KIND = ("tenant", "queue"), ("tenant", "queue", "kind")


class Metrics:
    """A listener that counts, and a Prometheus collector with its own registry.

    Counting is plain arithmetic on the worker's loop; text is rendered on request. One instance may listen to several
    workers of a program. `metrics.registry` is for programs that publish it themselves.
    """

    def __init__(self, health: Callable[[], WorkerHealth] | None = None) -> None:
        self._core = prometheus()
        self._health = health
        self._counts = WorkerCounts()
        self._queues: tuple[QueueMetrics, asyncio.AbstractEventLoop] | None = None
        self._loop_thread = 0
        self.registry = self._core.CollectorRegistry()
        self.registry.register(self)

    def __call__(self, event: WorkerEvent) -> None:
        """Count an event."""
        self._counts(event)

    def collect(self) -> "Iterable[Metric]":
        """The metrics; called from the thread of Prometheus."""
        yield from _counters(self._core, self._counts)
        if self._health is not None:
            yield from _gauges(self._core, self._health())
        if self._queues is not None:
            yield from self._queue_gauges(*self._queues)

    def watch(self, store: Store, patterns: Sequence[str], tenant: str = DEFAULT_TENANT) -> None:
        """Show the jobs of queues, too: `queue`, `tenant/queue`, or a prefix such as `acme/mail*`.

        Call it on the event loop of the store.
        """
        self._queues = QueueMetrics(store, patterns, tenant), asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()

    def _queue_gauges(self, queues: QueueMetrics, loop: asyncio.AbstractEventLoop) -> "Iterable[Metric]":
        if threading.get_ident() != self._loop_thread:  # on the loop itself, `asgi` has refreshed them
            with suppress(TimeoutError, RuntimeError, CancelledError):  # a busy or closed loop: show the last counts
                asyncio.run_coroutine_threadsafe(queues.refresh(), loop).result(QUEUE_METRICS_WAIT_S)
        for gauge in queues.gauges():
            family = self._core.core.GaugeMetricFamily(gauge.name, gauge.about, labels=gauge.labels)
            for labels, value in gauge.values:
                family.add_metric(labels, value)
            yield family

    def asgi(self) -> "Callable[[Any, Any, Any], Awaitable[None]]":
        """The metrics as an ASGI application, for web programs: `app.mount("/metrics", metrics.asgi())`."""
        page = PrometheusPage(self.registry)

        async def app(scope: Any, _receive: Any, send: Any) -> None:
            if scope["type"] != "http":
                return
            if self._queues is not None and asyncio.get_running_loop() is self._queues[1]:
                await self._queues[0].refresh()
            accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
            body, content_type = page(accept)
            headers = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body))]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

        return app

    def serve(
        self, host: str = "127.0.0.1", port: int = 0, health: Callable[[], WorkerHealth] | None = None
    ) -> "MetricsServer":
        """Answer GET /metrics and GET /health from a separate thread, also while the worker's loop is blocked.

        `health` is `worker.health`. Port 0 chooses a free port: `server.port`.
        """
        self._health = health or self._health
        return MetricsServer(host, port, PrometheusPage(self.registry), self._health)


class SummedMetrics:
    """The metrics of several processes: `poll` returns their health and the sums of their counts."""

    def __init__(self, poll: "Callable[[], tuple[ProcessesHealth, WorkerCounts]]") -> None:
        self._core = prometheus()
        self._poll = poll
        self._registry = self._core.CollectorRegistry()
        self._registry.register(self)

    def collect(self) -> "Iterable[Metric]":
        """The metrics; called from the thread of Prometheus."""
        health, counts = self._poll()
        yield from _counters(self._core, counts)
        yield from _gauges(self._core, health)
        counter, gauge = self._core.core.CounterMetricFamily, self._core.core.GaugeMetricFamily
        yield gauge("headrace_worker_processes", "Worker processes that run.", health.alive)
        yield counter("headrace_worker_process_restarts", "Worker processes started anew.", health.restarts)

    def describe(self) -> "Iterable[Metric]":
        """Empty, so that registering the collector does not poll processes before they start."""
        return ()

    def serve(self, host: str, port: int) -> "MetricsServer":
        """Answer GET /metrics and GET /health from a separate thread."""
        return MetricsServer(host, port, PrometheusPage(self._registry), lambda: self._poll()[0])


def _counters(core: Any, counts: WorkerCounts) -> "Iterable[Metric]":
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


def _histogram(core: Any, name: str, about: str, labels: Labels, histograms: dict[Labels, Histogram]) -> "Metric":
    family = core.core.HistogramMetricFamily(name, about, labels=labels)
    for values, histogram in list(histograms.items()):
        family.add_metric(values, list(histogram.rows()), histogram.sum_ms / 1000)
    return family  # type: ignore[no-any-return]


def prometheus() -> Any:
    """The package prometheus_client; raises `BadConfig` where it is missing."""
    try:
        import prometheus_client
        import prometheus_client.core
        import prometheus_client.exposition
    except ImportError as error:
        raise BadConfig(
            "metrics need the package prometheus-client, which is not there; pip install 'headrace[metrics]'"
        ) from error
    return prometheus_client


class PrometheusPage:
    """The metrics of a registry as the body of a response, in the format that the request accepts."""

    def __init__(self, registry: Any) -> None:
        self._choose_encoder = prometheus().exposition.choose_encoder
        self._registry = registry

    def __call__(self, accept: str) -> tuple[bytes, str]:
        encode, content_type = self._choose_encoder(accept)
        return encode(self._registry), content_type


class MetricsServer:
    """An HTTP server on separate threads, until `close` or the end of a `with` block."""

    def __init__(self, host: str, port: int, page: Page, health: Health | None) -> None:
        try:
            self._server = _Server((host, port), _handler(page, health))
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else "ports go from 0 to 65535"
            raise BadConfig(
                f"metrics cannot be served on {host}:{port} ({why}); choose another port, or 0 for any that is free"
            ) from error
        self.host = host
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(CLOSE_SECONDS,), name="headrace-metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop the server; a second call does nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # Not `HTTPServer.server_bind`, which looks up the host name and may wait long for the name service.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the signature of the base class
        LOG.debug("an answer to %s failed", client_address, exc_info=True)  # noqa: LOG014 - called by a handler of exceptions


def _handler(page: Page, health: Health | None) -> type[BaseHTTPRequestHandler]:
    class RequestHandler(BaseHTTPRequestHandler):
        timeout = SCRAPE_SECONDS_MAX
        server_version = "headrace"
        sys_version = ""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                body, content_type = page(self.headers.get("Accept", ""))
                self._answer(HTTPStatus.OK, body, content_type)
            elif path == "/health" and health is not None:
                report = health()
                status = HTTPStatus.OK if report.ok else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, msgspec.json.encode(report), "application/json")
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"here are /metrics and /health\n", "text/plain; charset=utf-8")

        do_HEAD = do_GET  # noqa: N815 - a name of the base class; some probes send HEAD

        def _answer(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the signature of the base class
            LOG.debug("request: " + format, *args)  # noqa: G003 - the argument is a format

    return RequestHandler
