"""The log of a worker: one event a line, from any logger, without secrets."""

import contextlib
import io
import json
import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.model.claim import Claim, Lease
from headrace.model.clock import ManualClock
from headrace.model.errors import BadConfig, OutcomeUnknown
from headrace.model.job import Record
from headrace.model.limits import LOG_PAYLOAD_CHARS_MAX
from headrace.model.outcome import Done
from headrace.model.results import Settled
from headrace.model.times import instant_text
from headrace.stores.contract.store import Store
from headrace.worker.context import current
from headrace.worker.events import (
    ActiveDelivery,
    EventEmitter,
    HandlerStuck,
    JobsClaimed,
    JobsFinished,
    LeaseLost,
    Lifecycle,
)
from headrace.worker.exceptions import Fail, Release, Retry
from headrace.worker.handlers import handler_of
from headrace.worker.job_log import JobLog
from headrace.worker.log_format import JOB_LOG, WORKER_LOG, JsonLines, TextLines
from headrace.worker.logging import setup_logs
from headrace.worker.settler import Settler
from tests.worker import process_handlers
from tests.worker.support import MAIL, build_handlers, job, run_until_idle

SECRET = "redis://admin:hunter2@host:6379/0?password=hunter2"  # noqa: S105 - what must not be shown


async def _nothing() -> None:
    return


def run_of(id: str = "a", *, payload: bytes = b"{}", headers: dict[str, str] | None = None) -> ActiveDelivery:
    """A delivery that waited for 400 ms."""
    record = Record(
        id=id, kind="work", payload=payload, run_at_ms=600, enqueued_at_ms=100, attempts=2, headers=headers or {}
    )
    claim = Claim(Lease(MAIL, id, "t.7", 7, 31_000), record, "worker-1", 5, 0, 1_000)
    return ActiveDelivery(1, claim, handler_of("work", _nothing), 30.0)


async def logged(store: Store, shape: Any = "json", /, **given: Any) -> list[str]:
    """The lines of a worker that does what is due."""
    stream = io.StringIO()
    functions = given.pop("functions")
    with setup_logs(shape, stream, **given) as logs:
        await run_until_idle(store, build_handlers(**functions), *logs.listeners)
    return stream.getvalue().splitlines()


def of_jobs(lines: list[str]) -> list[dict[str, Any]]:
    """The lines about jobs."""
    return [line for line in map(json.loads, lines) if "id" in line]


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where a log in JSON goes as long as the test lasts."""
    stream = io.StringIO()
    with setup_logs("json", stream):
        yield stream


def parsed(stream: io.StringIO) -> dict[str, Any]:
    """The one line that was written."""
    [line] = stream.getvalue().splitlines()
    fields: dict[str, Any] = json.loads(line)
    return fields


async def test_the_life_of_a_job_is_a_line_when_it_is_claimed_and_one_when_it_is_settled(
    timed: Store, clock: ManualClock
) -> None:
    await timed.jobs.enqueue([job("a")])
    clock.advance(250)

    lines = of_jobs(await logged(timed, functions={"work": _nothing}))

    about = {"tenant": "default", "queue": "mail", "id": "a", "kind": "work", "attempt": 1, "worker": "worker-1"}
    assert [list(line) for line in lines] == [
        ["at", "level", "event", *about, "wait_ms"],
        ["at", "level", "event", *about, "run_ms"],
    ]
    assert all(about.items() <= line.items() for line in lines)
    assert [(line["level"], line["event"]) for line in lines] == [("info", "claimed"), ("info", "done")]
    assert lines[0]["wait_ms"] == 250
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", lines[0]["at"])


async def test_a_failed_attempt_is_logged_with_its_error_and_its_next_time(timed: Store, clock: ManualClock) -> None:
    async def work() -> None:
        raise KeyError("user\n42")

    await timed.jobs.enqueue([job("a", max_attempts=2, backoff_ms=0)])
    lines = of_jobs(await logged(timed, functions={"work": work}))

    assert [(line["event"], line["level"], line["attempt"]) for line in lines] == [
        ("claimed", "info", 1),
        ("raised", "warning", 1),
        ("retried", "warning", 1),
        ("claimed", "info", 2),
        ("raised", "warning", 2),
        ("dead", "error", 2),
    ]
    _, raised, retried, _, _, dead = lines
    for line in (raised, retried, dead):
        assert (line["error_class"], line["error_message"]) == ("KeyError", r"'user\n42'")
    assert raised["traceback"].startswith("Traceback")
    assert re.search(r"test_logging\.py:\d+ in work$", raised["error_at"])
    assert retried["run_at"] == instant_text(clock.now_ms())
    assert dead["reason"] == "attempts"


@pytest.mark.parametrize(
    ("end", "event", "more"),
    [
        (Fail("never"), "dead", {"reason": "failed", "error_class": "Fail", "error_message": "never"}),
        (Release(delay="1h"), "released", {}),
        (Retry("busy", delay="1h"), "retried", {"error_class": "Retry", "error_message": "busy"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_chosen_outcome_is_logged_by_its_journal_event(
    timed: Store, clock: ManualClock, end: Exception, event: str, more: dict[str, str]
) -> None:
    async def work() -> None:
        raise end

    await timed.jobs.enqueue([job("a")])
    _, line = of_jobs(await logged(timed, functions={"work": work}))

    assert line["event"] == event
    assert more.items() <= line.items()
    assert line.get("run_at") == (None if event == "dead" else instant_text(clock.now_ms() + 3_600_000))


async def test_a_job_without_a_handler_is_logged_as_dead(store: Store) -> None:
    await store.jobs.enqueue([job("a", "wrok")])

    _, line = of_jobs(await logged(store, functions={"work": _nothing}))

    assert (line["event"], line["kind"], line["error_class"]) == ("dead", "wrok", "UnknownKind")


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        (
            LeaseLost(run_of().claim, "the store replied not_active"),
            {"event": "lost", "reason": "the store replied not_active"},
        ),
        (HandlerStuck(run_of().claim, "timeout", 5.2), {"event": "wedged", "reason": "timeout", "seconds": 5}),
    ],
    ids=["lost", "wedged"],
)
def test_problems_of_a_delivery_are_logged_without_a_listener(
    stream: io.StringIO, event: LeaseLost | HandlerStuck, fields: dict[str, Any]
) -> None:
    EventEmitter([]).emit(event)

    line = parsed(stream)
    assert fields.items() <= line.items()
    assert (line["level"], line["id"], line["attempt"], line["worker"]) == ("warning", "a", 3, "worker-1")


def test_a_settlement_whose_answer_was_lost_is_logged_as_presumed(stream: io.StringIO) -> None:
    settler = Settler(lambda _: None, EventEmitter([JobLog()]))
    settler.put(run := run_of(), Done(), 5)
    settler.record_failure(settler.take(), OutcomeUnknown("lost"))

    settler.record_answers(settler.take(), [Settled(run.claim.lease.id, "not_active")])

    line = parsed(stream)
    assert (line["event"], line["outcome"], line["id"]) == ("presumed", "done", "a")


async def test_events_of_the_worker_itself_are_logged(store: Store) -> None:
    lines = [json.loads(line) for line in await logged(store, functions={"work": _nothing})]

    assert [line["event"] for line in lines] == ["started", "stopping", "stopped"]
    assert {line["worker"] for line in lines} == {"worker-1"}
    assert lines[0]["reason"] == "on default/mail"


def test_a_store_that_went_away_is_a_warning(stream: io.StringIO) -> None:
    EventEmitter([], "worker-1").emit(Lifecycle("store_lost", f"cannot reach {SECRET}"))

    line = parsed(stream)
    assert (line["level"], line["event"], line["worker"]) == ("warning", "store_lost", "worker-1")
    assert "hunter2" not in json.dumps(line)


async def test_payloads_are_logged_only_on_request(store: Store) -> None:
    async def work(text: str) -> None: ...

    payload = json.dumps({"text": "x" * 2 * LOG_PAYLOAD_CHARS_MAX}).encode()
    await store.jobs.enqueue([job("a", payload=payload), job("b", payload=b'{"text":"hi"}')])
    shy = await logged(store, functions={"work": work})
    await store.jobs.enqueue([job("c", payload=payload), job("d", payload=b'{"text":"hi"}')])
    open_ = of_jobs(await logged(store, functions={"work": work}, payloads=True))

    assert "payload" not in "".join(shy)
    assert "xx" not in "".join(shy)
    shown = [line["payload"] for line in open_ if line["event"] == "claimed"]
    assert (len(shown[0]), shown[0][-1], shown[1]) == (LOG_PAYLOAD_CHARS_MAX, "…", '{"text":"hi"}')


async def test_lines_of_a_handler_have_the_shape_of_all_others(store: Store) -> None:
    """In a coroutine and in a thread, by the context's log and by any other logger."""

    async def work() -> None:
        current().log.info("%d%% sent", 7, extra={"size": 9, "id": "mine", "parts": {"to": [SECRET]}})

    def plain() -> None:
        logging.getLogger("headrace.job.mine").warning("look")

    await store.jobs.enqueue([job("a%s"), job("b", "plain")])
    lines = [
        line
        for line in of_jobs(await logged(store, functions={"work": work, "plain": plain}, jobs=False))
        if line["event"] == "log"
    ]

    by_id = {line["id"]: line for line in lines}
    about = {"tenant": "default", "queue": "mail", "attempt": 1}
    assert {**about, "kind": "work", "message": "7% sent", "size": 9}.items() <= by_id["a%s"].items()
    assert by_id["a%s"]["parts"] == {"to": ["redis://…@host:6379/0?password=…"]}
    assert {**about, "kind": "plain", "message": "look", "logger": "headrace.job.mine"}.items() <= by_id["b"].items()


async def test_lines_of_a_handler_in_a_process_have_that_shape_as_well(
    store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    await store.jobs.enqueue([job("a", "speaks")])
    with setup_logs("json"):
        await run_until_idle(
            store, build_handlers(speaks=handler_of("speaks", process_handlers.speaks, process=True)), pool_size=1
        )

    [line] = [line for line in map(json.loads, capfd.readouterr().err.splitlines()) if line["event"] == "log"]
    assert (line["id"], line["attempt"], line["message"], line["level"]) == ("a", 1, "from afar", "info")


BREAKING = ["\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x1b[31m", "\x9b31m", "\udc80", "\x00"]


@pytest.mark.parametrize("text", BREAKING, ids=ascii)
@pytest.mark.parametrize("make", [JsonLines, TextLines])
def test_no_value_breaks_a_line_or_steers_a_terminal(make: Callable[[], logging.Formatter], text: str) -> None:
    fields = {"event": "lost", "tenant": "t", "queue": "q", "id": f"a{text}b", "kind": text, "attempt": 1}
    fields["reason"] = f"x{text}y"
    event = logging.makeLogRecord({"msg": "m", "headrace": fields})
    line = logging.makeLogRecord({"msg": f"{text}", "size": text, "name": "other"})

    for record in (event, line):
        shown = make().format(record)

        assert shown.splitlines() == [shown]
        assert shown.isprintable()
        shown.encode()


def test_numbers_that_are_none_and_texts_that_cannot_be_made_are_shown_somehow() -> None:
    class Odd:
        def __str__(self) -> str:
            raise ValueError("no")

    record = logging.makeLogRecord({"msg": "m", "ratio": float("nan"), "odd": Odd()})

    line = json.loads(JsonLines().format(record))

    assert (line["ratio"], line["odd"]) == ("nan", "(its text could not be made)")


@pytest.mark.parametrize("shape", ["json", "text"])
async def test_secrets_of_urls_are_in_no_line(store: Store, shape: str) -> None:
    async def work() -> None:
        current().log.warning("using %s", SECRET, extra={"url": SECRET, "urls": [{"of": SECRET}]})
        raise ValueError(f"cannot reach {SECRET}")

    await store.jobs.enqueue([job(SECRET, payload=json.dumps({}).encode(), max_attempts=1, tag=SECRET)])
    lines = await logged(store, shape, functions={"work": work}, payloads=True, level=logging.DEBUG)

    assert len(lines) > 6
    assert "hunter2" not in "\n".join(lines)


async def test_text_is_a_line_a_job_with_the_place_of_an_error(store: Store) -> None:
    async def work() -> None:
        raise ValueError("no such user")

    await store.jobs.enqueue([job("a", max_attempts=1)])
    lines = await logged(store, "text", functions={"work": work})

    assert len(lines) == 6
    _, claimed, raised, dead, *_ = lines
    assert re.fullmatch(r"\S+Z info    claimed   work a attempt=1 queue=mail wait_ms=\d+", claimed)
    assert re.fullmatch(
        r"\S+Z warning raised    work a attempt=1 queue=mail error_class=ValueError"
        r' error_message="no such user" error_at="\S+test_logging\.py:\d+ in work"',
        raised,
    )
    assert re.search(r" error   dead      work a attempt=1 queue=mail run_ms=\d+ reason=attempts ", dead)


async def test_text_shows_stack_traces_indented_at_debug(store: Store) -> None:
    async def work() -> None:
        raise ValueError("no such user")

    await store.jobs.enqueue([job("a", max_attempts=1)])
    lines = await logged(store, "text", functions={"work": work}, level=logging.DEBUG)

    indented = [line for line in lines if line.startswith("    ")]
    assert indented[0] == "    Traceback (most recent call last):"
    assert indented[-1] == "    ValueError: no such user"


@pytest.mark.parametrize(
    ("terminal", "no_color", "coloured"), [(True, "", True), (True, "1", False), (False, "", False)]
)
def test_colour_is_for_terminals_that_want_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: bool, no_color: str, coloured: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    ours, theirs = os.openpty() if terminal else (-1, os.open(tmp_path / "log", os.O_RDWR | os.O_CREAT))
    with os.fdopen(theirs, "w") as stream, setup_logs("text", stream):
        WORKER_LOG.warning("look")
        shown = os.read(ours, 4_096) if terminal else (tmp_path / "log").read_bytes()
    if terminal:
        os.close(ours)

    assert b"look" in shown
    assert (b"\x1b[" in shown) == coloured


def test_closing_puts_everything_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """And others' warnings come out in the same shape only where the program has not set up logging."""
    root, ours = logging.getLogger(), logging.getLogger("headrace")
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(ours, "propagate", True)
    before = (ours.level, ours.propagate, list(ours.handlers))
    alone, beside = io.StringIO(), io.StringIO()

    with setup_logs("json", alone):
        logging.getLogger("elsewhere").warning("look")
        logging.getLogger("elsewhere").info("do not")
    root.addHandler(logging.NullHandler())
    with setup_logs("json", beside) as logs:
        logging.getLogger("elsewhere").warning("look")
        logs.close()
    WORKER_LOG.warning("after")

    assert (parsed(alone)["logger"], parsed(alone)["message"]) == ("elsewhere", "look")
    assert beside.getvalue() == ""
    assert (ours.level, ours.propagate, list(ours.handlers)) == before
    assert [type(handler) for handler in root.handlers] == [logging.NullHandler]


def test_a_log_without_a_reader_builds_no_records(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    class Shy:
        def __getattr__(self, name: str) -> None:
            looked_at.append(name)

    monkeypatch.setattr(JOB_LOG, "disabled", True)
    shy: Any = Shy()

    with contextlib.suppress(Exception):
        JobLog()(JobsClaimed([shy]))
    with contextlib.suppress(Exception):
        JobLog()(JobsFinished([shy], [Settled("a", "done")]))
    EventEmitter([]).emit(HandlerStuck(shy, "timeout", 1.0))

    assert looked_at == []


def test_jobs_need_not_be_logged_one_by_one() -> None:
    with setup_logs("text", io.StringIO(), jobs=False) as logs:
        assert logs.listeners == ()


def test_a_format_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadConfig, match="logs are written as text or json; found 'xml'"):
        setup_logs("xml")  # type: ignore[arg-type]


def test_the_trace_of_the_enqueue_is_logged_with_the_claim(stream: io.StringIO) -> None:
    JobLog()(JobsClaimed([run_of(headers={"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"})]))

    assert parsed(stream)["origin_trace_id"] == "ab" * 16
