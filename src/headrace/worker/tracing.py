"""The span of a handler's run: a new trace, linked to the enqueue."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.client.tracing import destination
from headrace.model.claim import Claim
from headrace.model.outcome import Failed, Outcome, Retried
from headrace.model.redact import redact

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


class RunSpan:
    """The span of one run of a handler."""

    def __init__(self, span: "Span") -> None:
        self._span = span
        self._trace = ""
        context = span.get_span_context()
        self.trace_id = f"{context.trace_id:032x}" if context.is_valid else None

    def record_trace(self, trace: str) -> None:
        """Keep the stack trace of an unexpected exception."""
        self._trace = trace

    def end(self, outcome: Outcome | None) -> None:
        """End the span with the outcome; None when the lease was lost."""
        if self._span.is_recording():
            self._span.set_attribute("headrace.outcome", "lost" if outcome is None else _outcome_name(outcome))
            if isinstance(outcome, Retried | Failed):
                self._fail(outcome)
        self._span.end()

    def _fail(self, outcome: Retried | Failed) -> None:
        from opentelemetry.trace import Status, StatusCode

        error = outcome.error
        message = redact(error.message)
        self._span.set_attribute("error.type", error.cls)
        self._span.add_event(
            "exception",
            {
                "exception.type": error.cls,
                "exception.message": message,
                **({"exception.stacktrace": redact(self._trace)} if self._trace else {}),
            },
        )
        self._span.set_status(Status(StatusCode.ERROR, f"{error.cls}: {message}" if message else error.cls))

    def carrier(self) -> dict[str, str]:
        """The context of this span as headers, for another process."""
        from opentelemetry import propagate, trace

        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(self._span))
        return carrier


def begin(tracer: "Tracer", claim: Claim) -> RunSpan:
    """Start the span of a run and make it the current span for the rest of this task. The enqueue is a link and not the
    parent: a job may run days later and many times, and a trace should end."""
    from opentelemetry import context, propagate, trace

    record, lease = claim.record, claim.lease
    sent = propagate.extract(record.headers, context.Context())
    origin = trace.get_current_span(sent).get_span_context()
    span = tracer.start_span(
        f"run {record.kind}",
        context=context.Context(),
        kind=trace.SpanKind.CONSUMER,
        links=[trace.Link(origin)] if origin.is_valid else [],
        attributes={
            **destination(lease),
            "messaging.operation.name": "run",
            "messaging.operation.type": "process",
            "messaging.message.id": record.id,
            "headrace.job.id": record.id,
            "headrace.job.kind": record.kind,
            "headrace.attempt": record.attempts + 1,
            "headrace.worker": claim.worker,
        },
    )
    context.attach(trace.set_span_in_context(span, sent))
    return RunSpan(span)


def continue_trace(carrier: Mapping[str, str]) -> None:
    """In the process of a handler: make the run's span the current span for the rest of this context."""
    if carrier:
        from opentelemetry import context, propagate

        context.attach(propagate.extract(carrier, context.Context()))


def origin_of(headers: Mapping[str, str]) -> str | None:
    """The trace in which a job was enqueued, from its headers."""
    parts = headers.get("traceparent", "").split("-")
    return parts[1] if len(parts) >= 4 and len(parts[1]) == 32 else None


def _outcome_name(outcome: Any) -> str:
    return str(outcome.__struct_config__.tag)
