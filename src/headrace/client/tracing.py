"""Records a span around every enqueue, in programs that have set up OpenTelemetry."""

import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec.structs import replace

from headrace.client.batching import check_job
from headrace.model.job import Job
from headrace.model.limits import HEADERS_BYTES_MAX, HEADERS_MAX
from headrace.model.redact import redact
from headrace.model.results import Enqueued

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

T = TypeVar("T")
LOG = logging.getLogger("headrace.client")
SYSTEM = {"messaging.system": "headrace"}
_known: "tuple[TracerProvider, Tracer | None] | None" = None


def tracer() -> "Tracer | None":
    """The tracer of the program, if it records traces. The package is not imported here: a program that has set up
    tracing has imported it, and others pay nothing."""
    module = sys.modules.get("opentelemetry.trace")
    provider_of = getattr(module, "get_tracer_provider", None)  # missing while another thread imports it
    if module is None or provider_of is None:
        return None
    global _known  # noqa: PLW0603 - a tracer is expensive to make, and the provider of a program is set once
    provider = provider_of()
    if _known is None or _known[0] is not provider:
        found = None if isinstance(provider, module.ProxyTracerProvider) else provider.get_tracer("headrace")
        _known = provider, None if isinstance(found, module.NoOpTracer) else found
    return _known[1]


def current_trace_id() -> str | None:
    """The id of the current trace, as hexadecimal text."""
    module = sys.modules.get("opentelemetry.trace")
    span_of = getattr(module, "get_current_span", None)
    context = None if span_of is None else span_of().get_span_context()
    return f"{context.trace_id:032x}" if context is not None and context.is_valid else None


async def traced_enqueue(tracer: "Tracer", job: Job, send: Callable[[Job], Awaitable[Enqueued]]) -> Enqueued:
    """Send one job inside a span, with the span's context in its headers."""
    check_job(job)
    with _EnqueueSpan(tracer, f"enqueue {job.kind}", destination(job)) as span:
        span.set("messaging.message.id", job.id)
        span.set("headrace.job.id", job.id)
        span.set("headrace.job.kind", job.kind)
        answer = await send(span.traced(job))
        span.set("headrace.status", answer.status)
        if not answer.ok:
            span.fail(answer.status)
        return answer


async def traced_enqueue_many(
    tracer: "Tracer", jobs: Iterable[Job], send: Callable[[Iterator[Job]], Awaitable[T]]
) -> T:
    """Send any number of jobs inside one span, whose context is in the headers of each."""
    with _EnqueueSpan(tracer, "enqueue", SYSTEM) as span:
        return await send(span.each(jobs))


def destination(job: Any) -> dict[str, str]:
    """The attributes of a span for the queue of a job, or of anything else with a `queue`."""
    return {
        **SYSTEM,
        "messaging.destination.name": job.queue.full_name,
        "headrace.queue": job.queue.full_name,
        "headrace.tenant": job.queue.tenant,
    }


class _EnqueueSpan:
    """A span around the sending of jobs."""

    def __init__(self, tracer: "Tracer", name: str, attributes: Mapping[str, str]) -> None:
        from opentelemetry import propagate, trace

        all_attributes = {**attributes, "messaging.operation.name": "enqueue", "messaging.operation.type": "send"}
        self._span: Span = trace.INVALID_SPAN
        self._carrier: dict[str, str] = {}
        try:
            self._span = tracer.start_span(name, kind=trace.SpanKind.PRODUCER, attributes=all_attributes)
            if self._span.is_recording():  # otherwise no run could be linked to it
                propagate.inject(self._carrier, trace.set_span_in_context(self._span))
        except Exception:  # the SDK and its plug-ins are foreign code
            LOG.exception("a span could not be started; the job is sent without")
        # `__exit__` records errors, redacted.
        self._using = trace.use_span(self._span, record_exception=False, set_status_on_exception=False)

    def __enter__(self) -> Self:
        self._using.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.fail(f"{type(error).__name__}: {error}")
        self._using.__exit__(kind, error, trace)
        try:
            self._span.end()
        except Exception:  # the job was sent; an error would make the caller send it again
            LOG.exception("a span could not be ended")

    def set(self, name: str, value: str | int) -> None:
        """Set an attribute of the span."""
        self._span.set_attribute(name, value)

    def fail(self, why: str) -> None:
        """Mark the span as failed."""
        from opentelemetry.trace import Status, StatusCode

        self._span.set_status(Status(StatusCode.ERROR, redact(why)))

    def traced(self, job: Job) -> Job:
        """The job with the span's context in its headers."""
        return with_context(job, self._carrier)

    def each(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """The jobs with the span's context in their headers; counts them."""
        count, kinds = 0, set[str]()
        try:
            for job in jobs:
                check_job(job)
                count += 1
                if len(kinds) < 2:
                    kinds.add(job.kind)
                yield self.traced(job)
        finally:
            self.set("messaging.batch.message_count", count)
            if len(kinds) == 1:
                [kind] = kinds
                self._span.update_name(f"enqueue {kind}")
                self.set("headrace.job.kind", kind)


def with_context(job: Job, carrier: Mapping[str, str]) -> Job:
    """The job with a trace's context in its headers. The caller's headers stay, including a trace context; a job
    without space for the context is sent without it."""
    if not carrier or not carrier.keys().isdisjoint(name.lower() for name in job.headers):
        return job
    for more in (carrier, {name: value for name, value in carrier.items() if name == "traceparent"}):
        headers = {**job.headers, **more}
        parts: Sequence[str] = [part for pair in headers.items() for part in pair]
        if len(headers) <= HEADERS_MAX and sum(len(part.encode()) for part in parts) <= HEADERS_BYTES_MAX:
            return replace(job, headers=headers) if more else job
    return job
