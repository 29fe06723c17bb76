"""One handler, run as a worker would: through the codec, the annotations, the middleware and the context."""

import asyncio
import re
from collections.abc import Iterator

import pytest
from msgspec import Struct

from headrace import App, Context, Fail, JobFailed, Refused, Release, Retry, current
from headrace.testing import AsyncKit, Kit, using
from headrace.worker.handlers import Next
from tests.testing.shop import ANSWERS, LOG, NOWHERE, mail, sync, welcome

app = App(NOWHERE)
SEEN: list[str] = []


class Point(Struct):
    """Where it is."""

    x: int
    y: int = 0


@app.middleware
async def watch(context: Context, call_next: Next) -> object:
    """Is around every handler."""
    SEEN.append(f"{context.job.kind} {context.job.id}")
    return await call_next(context)


@app.job
async def move(point: Point, by: int) -> Point:
    """Takes and returns what is not plain JSON."""
    return Point(point.x + by, point.y)


@app.job
def about(word: str) -> object:
    """Returns the facts of its own job."""
    job = current().job
    return {"id": job.id, "attempt": job.attempt, "word": job.headers.get(word), "tag": job.tag, "queue": job.queue}


@app.job
async def named(id: str, attempt: int = 0) -> str:
    """Has arguments that are words about jobs as well."""
    return f"{id} {attempt} {current().job.id} {current().attempt}"


@app.job
async def strange() -> object:
    """Returns what cannot be sent."""
    return object()


@app.job
async def returning() -> object:
    """Returns its outcome instead of raising it."""
    return Retry("later", delay="5s")


@app.job(process=True)
async def apart() -> str:
    """Asks for a process of its own."""
    return SEEN[-1]


@pytest.fixture
def kit() -> Iterator[Kit]:
    """The kit of the app above."""
    SEEN.clear()
    with using(app) as kit:
        yield kit


def test_arguments_and_results_go_through_the_codec(kit: Kit) -> None:
    found = kit.run_job(move, Point(1, 2), by=3)

    assert found == Point(4, 2)
    assert len(SEEN) == 1


def test_arguments_that_do_not_fit_are_refused_as_an_enqueue_would(kit: Kit) -> None:
    with pytest.raises(Refused, match="Expected `int`, got `str`"):
        kit.run_job(move, Point(1), by="3")
    with pytest.raises(Refused, match="missing a required argument: 'by'"):
        kit.run_job(move, Point(1))
    with pytest.raises(Refused, match="has no argument 'bye'; did you mean 'by'"):
        kit.run_job(move, Point(1), bye=1)
    assert SEEN == []


def test_the_context_has_the_options_of_the_run(kit: Kit) -> None:
    found = kit.run_job(about, "a", attempt=3, id="j-1", headers={"a": "b"}, tag="t", queue="mail", delay="1h")

    assert found == {"id": "j-1", "attempt": 3, "word": "b", "tag": "t", "queue": "mail"}
    assert SEEN == ["about j-1"]


def test_run_job_takes_a_keyword_of_the_function_as_argument_and_also_a_job(kit: Kit) -> None:
    assert kit.run_job(named.options(id="job"), id="mine", attempt=7) == "mine 7 job 1"
    assert kit.run_job(named.options(id="job").job(id="mine"), attempt=2) == "mine 0 job 2"
    with pytest.raises(Refused, match="a Job has its arguments already"):
        kit.run_job(named.job("mine"), id="other")  # type: ignore[call-overload]


def test_the_payload_of_a_job_passed_to_run_job_is_checked(kit: Kit) -> None:
    with pytest.raises(Refused, match=re.escape("does not fit move(point: Point, by: int)")):
        kit.run_job(kit.client.job("move", {"point": 1}))
    with pytest.raises(Refused, match="no handler for kind 'moove'; did you mean 'move'"):
        kit.run_job(kit.client.job("moove", {}))


@pytest.mark.parametrize(
    ("answer", "error"), [("busy", TimeoutError), ("later", Retry), ("gone", Fail), ("mine", Release)]
)
def test_whatever_a_handler_raises_is_raised(headrace: Kit, answer: str, error: type[Exception]) -> None:
    ANSWERS.append(answer)

    with pytest.raises(error) as raised:
        headrace.run_job(sync, 7)

    frames = [frame.name for frame in raised.traceback]
    assert frames[-1] == "sync"
    assert LOG == ["sync 7, attempt 1"]


def test_an_outcome_that_is_returned_is_raised_too(kit: Kit) -> None:
    with pytest.raises(Retry) as raised:
        kit.run_job(returning)

    assert raised.value.delay_ms == 5_000


def test_a_release_for_no_time_at_all_runs_once(headrace: Kit) -> None:
    runs = []

    async def again() -> None:
        runs.append(1)
        raise Release

    with pytest.raises(Release):
        headrace.run_job(headrace.app.job(again))

    assert runs == [1]


def test_a_result_that_cannot_be_sent_fails_the_job(kit: Kit) -> None:
    with pytest.raises(JobFailed, match="of BadResult: "):
        kit.run_job(strange)


def test_a_handler_that_takes_too_long_is_timed_out(headrace: Kit) -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match=r"still running after its 0\.01 s"):
        headrace.run_job(headrace.app.job(endless), timeout="10ms")


def test_a_handler_with_process_runs_in_the_test_process(kit: Kit) -> None:
    assert kit.run_job(apart, id="here") == "apart here"


def test_jobs_sent_by_the_handler_are_enqueued_and_its_own_is_not(headrace: Kit) -> None:
    assert headrace.run_job(welcome, user_id=42) == "hello 42"

    assert [job.kind for job in headrace.enqueued()] == ["mail"]
    headrace.assert_enqueued(mail, to="u42")


async def test_an_async_kit_awaits_run_job(headrace: AsyncKit) -> None:
    found = await headrace.run_job(sync, customer=7)
    another = await headrace.run_job(sync.job(8), attempt=2)

    assert (found, another, LOG) == (7, 8, ["sync 7, attempt 1", "sync 8, attempt 2"])
