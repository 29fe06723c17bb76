"""Traces: an enqueue and its runs are linked spans, in programs that have set up OpenTelemetry."""

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode

from headrace.app.app import App
from headrace.client.blocking import BlockingClient
from headrace.client.client import Client
from headrace.client.tracing import current_trace_id
from headrace.model.errors import Refused
from headrace.model.limits import HEADERS_BYTES_MAX, HEADERS_MAX
from headrace.stores.contract.store import Store
from headrace.worker.context import current
from headrace.worker.exceptions import Release
from headrace.worker.handlers import handler_of
from headrace.worker.logging import setup_logs
from tests.worker import process_handlers
from tests.worker.support import MAIL, build_handlers, job, jobs, run_until_idle


class Spans:
    """The spans that have ended."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    def of(self, kind: SpanKind) -> list[ReadableSpan]:
        """Those of a kind, in the order of their ends."""
        return [span for span in self._exporter.get_finished_spans() if span.kind is kind]

    @property
    def enqueue(self) -> ReadableSpan:
        """The only one of an enqueue."""
        [span] = self.of(SpanKind.PRODUCER)
        return span

    @property
    def run(self) -> ReadableSpan:
        """The only one of a run."""
        [span] = self.of(SpanKind.CONSUMER)
        return span


def provider(monkeypatch: pytest.MonkeyPatch, **given: Any) -> InMemorySpanExporter:
    """Set tracing up as a program does, until the test has ended: a program can do it only once."""
    exporter = InMemorySpanExporter()
    tracer_provider = TracerProvider(**given)
    tracer_provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracer_provider)
    return exporter


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """Tracing that is set up."""
    return Spans(provider(monkeypatch))


def ids(span: ReadableSpan) -> tuple[int, int]:
    """Trace and span."""
    found = span.get_span_context()
    assert found is not None
    return found.trace_id, found.span_id


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """What is known of a span."""
    return dict(span.attributes or {})


async def headers_of(store: Store, id: str) -> dict[str, str]:
    """The headers that the store keeps."""
    [found] = await store.reads.find(MAIL, [id])
    assert found is not None
    assert found.record is not None
    return found.record.headers


async def _nothing() -> None:
    return


async def test_a_run_is_linked_to_its_enqueue_and_begins_a_trace_of_its_own(store: Store, spans: Spans) -> None:
    with trace.get_tracer("program").start_as_current_span("request") as request:
        await Client(store, queue="mail").enqueue("work", {}, id="a")
        await run_until_idle(store, build_handlers(work=_nothing))

    enqueue, run = spans.enqueue, spans.run
    assert (enqueue.name, run.name) == ("enqueue work", "run work")
    assert enqueue.parent is not None
    assert enqueue.parent.span_id == request.get_span_context().span_id
    assert run.parent is None
    assert [(link.context.trace_id, link.context.span_id) for link in run.links] == [ids(enqueue)]
    assert ids(run)[0] != ids(enqueue)[0]


async def test_spans_say_which_job_they_are_about(store: Store, spans: Spans) -> None:
    await Client(store, queue="mail").enqueue("work", {}, id="a")
    await run_until_idle(store, build_handlers(work=_nothing))

    about = {
        "messaging.system": "headrace",
        "messaging.destination.name": "mail",
        "messaging.message.id": "a",
        "headrace.job.id": "a",
        "headrace.job.kind": "work",
        "headrace.queue": "mail",
        "headrace.tenant": "default",
    }
    assert attributes(spans.enqueue) == {
        **about,
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "send",
        "headrace.status": "created",
    }
    assert attributes(spans.run) == {
        **about,
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "headrace.attempt": 1,
        "headrace.worker": "worker-1",
        "headrace.outcome": "done",
    }
    assert spans.run.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("mode", ["async", "thread", "process"])
async def test_the_span_of_a_run_is_the_current_one_inside_its_handler(store: Store, spans: Spans, mode: str) -> None:
    async def work() -> str | None:
        return current_trace_id()

    def plain() -> str | None:
        return current_trace_id()

    function = {"async": work, "thread": plain, "process": process_handlers.trace}[mode]
    handle = await Client(store, queue="mail").enqueue("work", {})
    await run_until_idle(
        store, build_handlers(work=handler_of("work", function, process=mode == "process")), pool_size=1
    )

    assert await handle.result(timeout="1s") == f"{ids(spans.run)[0]:032x}"


async def test_handlers_see_the_headers_and_the_baggage_that_were_sent(store: Store, spans: Spans) -> None:
    seen: list[tuple[dict[str, str], object]] = []

    async def work() -> None:
        seen.append((current().job.headers, baggage.get_baggage("user")))

    token = context.attach(baggage.set_baggage("user", "42"))
    await Client(store, queue="mail").enqueue("work", {}, headers={"shop": "7"})
    context.detach(token)
    await run_until_idle(store, build_handlers(work=work))

    [(headers, user)] = seen
    trace_id, span_id = ids(spans.enqueue)
    assert headers.pop("traceparent").startswith(f"00-{trace_id:032x}-{span_id:016x}-")
    assert (headers, user) == ({"shop": "7", "baggage": "user=42"}, "42")


@pytest.mark.parametrize("name", ["traceparent", "Traceparent"])
async def test_a_context_that_the_caller_gave_is_left_alone(store: Store, spans: Spans, name: str) -> None:
    given = {name: f"00-{'ab' * 16}-{'cd' * 8}-01"}

    await Client(store, queue="mail").enqueue("work", {}, id="a", headers=given)

    assert await headers_of(store, "a") == given
    assert spans.enqueue.name == "enqueue work"


async def test_a_job_whose_headers_are_full_goes_without(store: Store, spans: Spans) -> None:
    many = {str(number): "" for number in range(HEADERS_MAX)}
    large = {"text": "x" * (HEADERS_BYTES_MAX - 4)}
    client = Client(store, queue="mail")

    await client.enqueue("work", {}, id="many", headers=many)
    await client.enqueue("work", {}, id="large", headers=large)

    assert await headers_of(store, "many") == many
    assert await headers_of(store, "large") == large
    assert len(spans.of(SpanKind.PRODUCER)) == 2


async def test_where_room_is_short_the_trace_comes_before_its_baggage(store: Store, spans: Spans) -> None:
    token = context.attach(baggage.set_baggage("user", "x" * HEADERS_BYTES_MAX))
    await Client(store, queue="mail").enqueue("work", {}, id="a")
    context.detach(token)

    assert list(await headers_of(store, "a")) == ["traceparent"]
    assert spans.enqueue.name == "enqueue work"


async def test_many_jobs_are_one_span_with_their_number(store: Store, spans: Spans) -> None:
    client = Client(store, queue="mail")

    await client.enqueue_many(jobs(5))
    await client.enqueue_many([job("a"), job("b", "other")])
    await run_until_idle(store, build_handlers(work=_nothing, other=_nothing))

    alike, mixed = spans.of(SpanKind.PRODUCER)
    assert [(span.name, attributes(span)["messaging.batch.message_count"]) for span in (alike, mixed)] == [
        ("enqueue work", 5),
        ("enqueue", 2),
    ]
    origins = [link.context.span_id for run in spans.of(SpanKind.CONSUMER) for link in run.links]
    assert sorted(origins) == sorted([ids(alike)[1]] * 5 + [ids(mixed)[1]] * 2)


async def test_an_enqueue_that_is_refused_is_an_error(store: Store, spans: Spans) -> None:
    client = Client(store, queue="mail")
    await store.jobs.enqueue([job("a", idempotency_key="k")])

    with pytest.raises(Refused):
        await client.enqueue("work", {"other": 1}, id="a", idempotency_key="k")
    with pytest.raises(Refused, match="only a Job can be sent"):
        await client.send({"kind": "work"})  # type: ignore[call-overload]  # what a caller may do all the same

    assert (spans.enqueue.status.status_code, spans.enqueue.status.description) == (StatusCode.ERROR, "conflict")


async def test_an_idempotent_job_is_the_same_whatever_trace_it_comes_from(store: Store, spans: Spans) -> None:
    client = Client(store, queue="mail")

    first = await client.enqueue("work", {}, idempotency_key="k")
    second = await client.enqueue("work", {}, idempotency_key="k")

    assert (first.status, second.status, first.id == second.id) == ("created", "duplicate", True)
    assert len(spans.of(SpanKind.PRODUCER)) == 2


async def test_a_failed_attempt_is_an_error_with_its_exception_and_without_secrets(store: Store, spans: Spans) -> None:
    async def work() -> None:
        raise ValueError("no redis://admin:hunter2@host/0")

    await store.jobs.enqueue([job("a", max_attempts=1)])
    await run_until_idle(store, build_handlers(work=work))

    assert spans.run.status.status_code is StatusCode.ERROR
    assert spans.run.status.description == "ValueError: no redis://…@host/0"
    assert attributes(spans.run)["headrace.outcome"] == "retry"
    [event] = spans.run.events
    found = dict(event.attributes or {})
    assert (found["exception.type"], found["exception.message"]) == ("ValueError", "no redis://…@host/0")
    assert str(found["exception.stacktrace"]).startswith("Traceback")
    assert "hunter2" not in spans.run.to_json()


async def test_a_time_out_is_an_error_and_a_release_is_none(store: Store, spans: Spans) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    async def later() -> None:
        raise Release(delay="1h")

    await store.jobs.enqueue([job("a", "slow", timeout_ms=1, max_attempts=1), job("b", "later")])
    await run_until_idle(store, build_handlers(slow=slow, later=later))

    found = {span.name: span for span in spans.of(SpanKind.CONSUMER)}
    assert attributes(found["run slow"])["error.type"] == "TimedOut"
    assert found["run slow"].status.status_code is StatusCode.ERROR
    assert attributes(found["run later"])["headrace.outcome"] == "release"
    assert found["run later"].status.status_code is StatusCode.UNSET


def test_the_blocking_client_and_the_functions_of_an_app_are_traced_alike(tmp_path: Path, spans: Spans) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = App(url)

    @app.job
    async def work() -> None: ...

    async def enqueue() -> None:
        async with app:
            await work.enqueue()

    with trace.get_tracer("program").start_as_current_span("request") as request, BlockingClient(url) as client:
        client.enqueue("work", {})
        client.enqueue_many([client.job("work", {})])
        work.blocking.enqueue()
        work.blocking.enqueue_many([{}])
        asyncio.run(enqueue())
    app.run_worker(until_idle=True, name="worker-1")
    app.blocking.close()

    sent = spans.of(SpanKind.PRODUCER)
    assert len(sent) == 5
    assert {span.parent.span_id for span in sent if span.parent is not None} == {request.get_span_context().span_id}
    origins = {link.context.span_id for run in spans.of(SpanKind.CONSUMER) for link in run.links}
    assert origins == {ids(span)[1] for span in sent}


async def test_lines_of_the_log_name_the_trace_of_the_run(store: Store, spans: Spans) -> None:
    async def work() -> None:
        current().log.info("here")
        raise ValueError("no")

    await Client(store, queue="mail").enqueue("work", {}, id="a", max_attempts=1)
    stream = io.StringIO()
    with setup_logs("json", stream) as logs:
        await run_until_idle(store, build_handlers(work=work), *logs.listeners)

    lines = {line["event"]: line for line in map(json.loads, stream.getvalue().splitlines())}
    assert lines["claimed"]["origin_trace_id"] == f"{ids(spans.enqueue)[0]:032x}"
    for event in ("log", "raised", "dead"):
        assert lines[event]["trace_id"] == f"{ids(spans.run)[0]:032x}"


@pytest.mark.parametrize("way", ["proxy", "off", "disabled"])
async def test_a_program_that_records_nothing_puts_nothing_into_headers(
    store: Store, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "disabled":
        monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    if way == "proxy":
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
        exporter = InMemorySpanExporter()
    else:
        exporter = provider(monkeypatch, **({"sampler": ALWAYS_OFF} if way == "off" else {}))

    await Client(store, queue="mail").enqueue("work", {}, id="a")
    headers = await headers_of(store, "a")
    await run_until_idle(store, build_handlers(work=_nothing))

    assert headers == {}
    assert exporter.get_finished_spans() == ()


@pytest.mark.parametrize(("hook", "message"), [("on_start", "started"), ("on_end", "ended")])
async def test_a_span_that_fails_costs_no_job(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hook: str, message: str
) -> None:
    class Broken(SpanProcessor):
        pass

    def broken(*_: object, **__: object) -> None:
        raise ValueError("somebody else's code")

    setattr(Broken, hook, broken)
    tracer_provider = TracerProvider()
    tracer_provider.add_span_processor(Broken())
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracer_provider)

    handle = await Client(store, queue="mail").enqueue("work", {})
    worker = await run_until_idle(store, build_handlers(work=_nothing))

    assert (handle.status, worker.health().totals.done) == ("created", 1)
    assert f"a span could not be {message}" in caplog.text


def test_a_program_that_does_not_use_opentelemetry_does_not_load_it() -> None:
    program = (
        "import sys\n"
        "from headrace import App\n"
        "app = App('memory://')\n"
        "@app.job\n"
        "async def work(): ...\n"
        "import asyncio\n"
        "async def main():\n"
        "    await work.enqueue()\n"
        "    await work.enqueue_many([{}])\n"
        "    await app.work(until_idle=True)\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus'))])\n"
    )

    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert output == "[]\n"
