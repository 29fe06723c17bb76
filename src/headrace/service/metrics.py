"""Counts the requests of the service by operation and status, and how long they took."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.service.app import Service

_BOUNDS_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)


class ServiceMetrics:
    """Counters in plain dictionaries: a request pays a microsecond for them."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.durations_ms: dict[str, list[int]] = {}
        self.sums_ms: Counter[str] = Counter()
        self.stream_events = 0

    def count(self, operation: str, status: int, duration_ms: int) -> None:
        """Count one request; status 0 is a client that left before its answer."""
        self.requests[operation, status] += 1
        row = self.durations_ms.get(operation)
        if row is None:
            row = self.durations_ms[operation] = [0] * (len(_BOUNDS_MS) + 1)
        row[bisect_left(_BOUNDS_MS, duration_ms)] += 1
        self.sums_ms[operation] += duration_ms


def metrics_text(service: "Service") -> str:
    """The metrics in the text format of Prometheus. Labels are names of ours: no caller can make new ones."""
    return "\n".join(_lines(service)) + "\n"


def _lines(service: "Service") -> Iterator[str]:
    metrics, admission, auth = service.metrics, service.admission, service.auth
    yield "# HELP headrace_http_requests_total Requests by operation and status."
    yield "# TYPE headrace_http_requests_total counter"
    for (operation, status), count in sorted(metrics.requests.items()):
        yield f'headrace_http_requests_total{{operation="{operation}",status="{status}"}} {count}'
    yield "# HELP headrace_http_request_seconds How long requests took."
    yield "# TYPE headrace_http_request_seconds histogram"
    for operation, row in sorted(metrics.durations_ms.items()):
        total = 0
        for bound_ms, count in zip(_BOUNDS_MS, row, strict=False):
            total += count
            yield f'headrace_http_request_seconds_bucket{{operation="{operation}",le="{bound_ms / 1_000:g}"}} {total}'
        total += row[-1]
        yield f'headrace_http_request_seconds_bucket{{operation="{operation}",le="+Inf"}} {total}'
        yield f'headrace_http_request_seconds_sum{{operation="{operation}"}} {metrics.sums_ms[operation] / 1_000:g}'
        yield f'headrace_http_request_seconds_count{{operation="{operation}"}} {total}'
    yield "# HELP headrace_http_in_flight Requests that run now."
    yield "# TYPE headrace_http_in_flight gauge"
    polls, streams = admission.polls.total, admission.streams.total
    for kind, number in (("call", admission.requests - polls - streams), ("poll", polls), ("stream", streams)):
        yield f'headrace_http_in_flight{{kind="{kind}"}} {number}'
    for name, what, number in (
        ("headrace_http_stream_events_total", "Events sent to streams.", metrics.stream_events),
        ("headrace_http_tokens_refused_total", "Tokens that were refused.", auth.refused),
        ("headrace_http_token_cache_hits_total", "Tokens that were remembered.", auth.cache_hits),
        ("headrace_http_token_cache_misses_total", "Tokens that were checked.", auth.cache_misses),
    ):
        yield f"# HELP {name} {what}"
        yield f"# TYPE {name} counter"
        yield f"{name} {number}"
    for gauge in service.queue_metrics.gauges():
        yield f"# HELP {gauge.name} {gauge.about}"
        yield f"# TYPE {gauge.name} gauge"
        for labels, value in gauge.values:
            shown = ",".join(f'{label}="{text}"' for label, text in zip(gauge.labels, labels, strict=True))
            yield f"{gauge.name}{{{shown}}} {value:g}" if shown else f"{gauge.name} {value:g}"
