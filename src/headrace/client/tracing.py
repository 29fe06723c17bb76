"""Traces: a span around every enqueue, in programs that have set up OpenTelemetry; in others nothing at all."""

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
    """The tracer of a program that records traces. The package is not imported for that: a program that has not done so
    has not set up tracing either, and pays for nothing."""
    module = sys.modules.get("opentelemetry.trace")
    provider_of = getattr(module, "get_tracer_provider", None)  # missing while another thread imports it
    if module is None or provider_of is None:
        return None
    global _known  # noqa: PLW0603 - a tracer is dear to make, and the provider of a program is set once
    provider = provider_of()
    if _known is None or _known[0] is not provider:
        found = None if isinstance(provider, module.ProxyTracerProvider) else provider.get_tracer("headrace")
        _known = provider, None if isinstance(found, module.NoOpTracer) else found
    return _known[1]


def current_trace_id() -> str | None:
    """The trace that goes on here, as hexadecimal text."""
    module = sys.modules.get("opentelemetry.trace")
    span_of = getattr(module, "get_current_span", None)
    context = None if span_of is None else span_of().get_span_context()
    return f"{context.trace_id:032x}" if context is not None and context.is_valid else None


async def traced_enqueue(tracer: "Tracer", job: Job, send: Callable[[Job], Awaitable[Enqueued]]) -> Enqueued:
    """Send one job inside a span, with the span's context in its headers."""
    check_job(job)
    with _Enqueuing(tracer, f"enqueue {job.kind}", destination(job)) as enqueuing:
        enqueuing.set("messaging.message.id", job.id)
        enqueuing.set("headrace.job.id", job.id)
        enqueuing.set("headrace.job.kind", job.kind)
        answer = await send(enqueuing.traced(job))
        enqueuing.set("headrace.status", answer.status)
        if not answer.ok:
            enqueuing.fail(answer.status)
        return answer


async def traced_enqueue_many(
    tracer: "Tracer", jobs: Iterable[Job], send: Callable[[Iterator[Job]], Awaitable[T]]
) -> T:
    """Send any number of jobs inside one span, whose context is in the headers of each."""
    with _Enqueuing(tracer, "enqueue", SYSTEM) as enqueuing:
        return await send(enqueuing.each(jobs))


def destination(job: Any) -> dict[str, str]:
    """The attributes of a span that say where a job waits; takes whatever has a `queue`."""
    return {
        **SYSTEM,
        "messaging.destination.name": job.queue.full_name,
        "headrace.queue": job.queue.full_name,
        "headrace.tenant": job.queue.tenant,
    }


class _Enqueuing:
    """A span while jobs are sent."""

    def __init__(self, tracer: "Tracer", name: str, attributes: Mapping[str, str]) -> None:
        from opentelemetry import propagate, trace

        given = {**attributes, "messaging.operation.name": "enqueue", "messaging.operation.type": "send"}
        self._span: Span = trace.INVALID_SPAN
        self._carrier: dict[str, str] = {}
        try:
            self._span = tracer.start_span(name, kind=trace.SpanKind.PRODUCER, attributes=given)
            if self._span.is_recording():  # else there is nothing that a run could be linked to
                propagate.inject(self._carrier, trace.set_span_in_context(self._span))
        except Exception:  # the SDK is somebody else's code, and so are its plug-ins
            LOG.exception("a span could not be started; the job is sent without")
        # Errors are told by `__exit__`, which knows what must not be shown.
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
        except Exception:  # the job is sent all the same, and nobody should send it again
            LOG.exception("a span could not be ended")

    def set(self, name: str, value: str | int) -> None:
        """Say more of what is sent."""
        self._span.set_attribute(name, value)

    def fail(self, why: str) -> None:
        """It was not sent, or nobody knows."""
        from opentelemetry.trace import Status, StatusCode

        self._span.set_status(Status(StatusCode.ERROR, redact(why)))

    def traced(self, job: Job) -> Job:
        """The job with the span's context in its headers."""
        return with_context(job, self._carrier)

    def each(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """The jobs with the span's context in their headers; counted as they leave."""
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
    """The job with a trace's context in its headers. What the caller has put there stays, also when it is a context of
    its own; and where there is no room, the job matters more than its trace."""
    if not carrier or not carrier.keys().isdisjoint(name.lower() for name in job.headers):
        return job
    for more in (carrier, {name: value for name, value in carrier.items() if name == "traceparent"}):
        headers = {**job.headers, **more}
        parts: Sequence[str] = [part for pair in headers.items() for part in pair]
        if len(headers) <= HEADERS_MAX and sum(len(part.encode()) for part in parts) <= HEADERS_BYTES_MAX:
            return replace(job, headers=headers) if more else job
    return job
