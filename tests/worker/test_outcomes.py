"""The result or exception of a handler decides the outcome of its job."""

import asyncio
import io
import logging
import random
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NoReturn

import msgspec
import pytest

from headrace.client.codec import RAW
from headrace.model.clock import ManualClock
from headrace.model.job import State
from headrace.model.limits import ERROR_MESSAGE_CHARS_MAX, JITTER_PPM, RESULT_BYTES_MAX
from headrace.model.outcome import JobError
from headrace.stores.contract.store import Store
from headrace.testing.faults import FaultyStore
from headrace.worker.events import CallbackRaised
from headrace.worker.exceptions import Fail, Release, Retry, job_error
from headrace.worker.handlers import handler_of
from headrace.worker.logging import setup_logs
from tests.worker import process_handlers
from tests.worker.support import MAIL, EventRecorder, build_handlers, dead_letters, find, job, jobs, run_until_idle


class Boom(Exception):
    """Something that a handler raises."""


async def boom() -> NoReturn:
    """A handler that never succeeds."""
    raise Boom("it broke")


async def test_an_error_is_kept_by_its_class_and_message_and_the_job_tried_again(timed: Store) -> None:
    """Q30, T29: the exception of a handler is the error of the attempt, unchanged."""
    await timed.jobs.enqueue([job("a", "boom")])

    await run_until_idle(timed, build_handlers(boom=boom))

    found = await find(timed, "a")
    assert found.state is State.WAITING
    assert found.record is not None
    assert (found.record.attempts, found.record.error) == (1, JobError("Boom", "it broke"))


SECRET = "hunter2"  # noqa: S105 - what must not be kept
URL = f"postgres://admin:{SECRET}@db.example/shop?sslpassword={SECRET}"


async def connect() -> NoReturn:
    raise ConnectionError(f"cannot connect to {URL}")


def connect_in_a_thread() -> NoReturn:
    raise Retry(f"cannot connect to {URL}", delay=0)


async def give_up() -> NoReturn:
    raise Fail(f"cannot connect to {URL}")


async def give_up_for_a_cause() -> NoReturn:
    raise Fail from ConnectionError(f"cannot connect to {URL}")


async def promise_otherwise() -> int:
    return URL  # type: ignore[return-value]


@pytest.mark.parametrize(
    "function",
    [connect, connect_in_a_thread, give_up, give_up_for_a_cause, promise_otherwise, process_handlers.connect],
)
async def test_the_password_of_a_url_in_an_error_is_neither_kept_nor_logged(
    store: Store, function: Callable[..., Any]
) -> None:
    stream = io.StringIO()
    handler = handler_of("work", function, process=function is process_handlers.connect)
    await store.jobs.enqueue([job("a", max_attempts=2, backoff_ms=0)])

    with setup_logs("json", stream, level=logging.DEBUG) as logs:
        await run_until_idle(store, build_handlers(work=handler), *logs.listeners)

    [dead_letter] = await dead_letters(store)
    page = await store.journal.read(MAIL.shard_of("a"), 0, 100)
    assert "//…@db.example/shop" in dead_letter.error.message
    assert SECRET not in repr(dead_letter) + repr(page) + stream.getvalue()


@pytest.mark.parametrize("max_attempts", [1, 5])
async def test_a_handler_that_always_fails_runs_as_often_as_it_may(store: Store, max_attempts: int) -> None:
    """T30: `max_attempts=5` runs exactly five times; then there is a dead letter."""
    runs = []

    async def work() -> NoReturn:
        runs.append(1)
        raise Boom("again")

    await store.jobs.enqueue([job("a", max_attempts=max_attempts, backoff_ms=0)])
    await run_until_idle(store, build_handlers(work=work))

    assert len(runs) == max_attempts
    [dead_letter] = await dead_letters(store)
    assert (dead_letter.reason, dead_letter.record.attempts, dead_letter.error) == (
        "attempts",
        max_attempts,
        JobError("Boom", "again"),
    )


async def test_a_job_that_does_not_say_otherwise_is_tried_more_than_once(timed: Store, clock: ManualClock) -> None:
    """TB2: without a number of attempts the queue's holds, ten at first; one failure kills nothing."""
    await timed.jobs.enqueue([job("a", "boom")])

    for _ in range(10):
        await run_until_idle(timed, build_handlers(boom=boom))
        clock.advance(3_600_000)

    [dead_letter] = await dead_letters(timed)
    assert dead_letter.record.attempts == 10


@pytest.mark.parametrize("is_returned", [False, True], ids=["raised", "returned"])
@pytest.mark.parametrize("mode", ["async", "thread"])
@pytest.mark.parametrize(
    ("end", "state", "attempts", "due_in_ms"),
    [
        (Retry("later", delay="90s"), State.WAITING, 1, 90_000),
        (Release(delay="5s"), State.WAITING, 0, 5_000),
        (Fail("never"), State.DEAD, 1, None),
    ],
)
async def test_retry_fail_and_release_mean_the_same_raised_or_returned(
    timed: Store,
    clock: ManualClock,
    end: Exception,
    state: State,
    attempts: int,
    due_in_ms: int | None,
    mode: str,
    is_returned: bool,
) -> None:
    """T29: a handler may say that nothing will help, or when to try again."""

    def plain() -> Exception:
        if is_returned:
            return end
        raise end

    async def work() -> Exception:
        return plain()

    await timed.jobs.enqueue([job("a", run_at_ms=clock.now_ms())])
    await run_until_idle(timed, build_handlers(work=work if mode == "async" else plain))

    found = await find(timed, "a")
    record = found.record or found.dead_letters[0].record
    assert (found.state, record.attempts) == (state, attempts)
    if due_in_ms is not None:
        assert record.run_at_ms == clock.now_ms() + due_in_ms
    if isinstance(end, Fail):
        assert (found.dead_letters[0].reason, found.dead_letters[0].error) == ("failed", JobError("Fail", "never"))


async def test_a_fail_that_has_a_cause_is_kept_under_the_name_of_its_cause(timed: Store) -> None:
    async def work() -> NoReturn:
        raise Fail from Boom("inside")

    await timed.jobs.enqueue([job("a")])
    await run_until_idle(timed, build_handlers(work=work))

    [dead_letter] = await dead_letters(timed)
    assert dead_letter.error == JobError("Boom", "inside")


async def test_a_job_released_at_once_comes_again_before_the_worker_is_idle(store: Store) -> None:
    runs = []

    async def work() -> Release | None:
        runs.append(1)
        return Release() if len(runs) < 4 else None

    await store.jobs.enqueue([job("a")])
    await run_until_idle(store, build_handlers(work=work))

    assert len(runs) == 4
    assert (await find(store, "a")).state is State.DONE


@pytest.mark.parametrize("is_plain", [False, True], ids=["coroutine", "thread"])
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), BaseException("odd")])
async def test_nothing_that_a_handler_raises_ends_the_worker(
    store: Store, error: BaseException, is_plain: bool
) -> None:
    """T27: whatever is raised is the end of that attempt only."""

    async def work() -> NoReturn:
        raise error

    def plain() -> NoReturn:
        raise error

    async def other() -> None:
        return

    await store.jobs.enqueue([job("a", max_attempts=1), job("b", "other")])
    await run_until_idle(store, build_handlers(work=plain if is_plain else work, other=other), capacity=1)

    [dead_letter] = await dead_letters(store)
    assert dead_letter.error.cls == type(error).__name__
    assert (await find(store, "b")).state is State.DONE


async def test_sys_exit_in_a_handler_is_an_error_like_any_other(store: Store) -> None:
    def work() -> NoReturn:
        sys.exit("goodbye")

    await store.jobs.enqueue([job("a", max_attempts=1)])
    await run_until_idle(store, build_handlers(work=work))

    [dead_letter] = await dead_letters(store)
    assert dead_letter.error == JobError("SystemExit", "goodbye")


class Mute(Exception):
    """An error that cannot even be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (Mute(), JobError("Mute", "(its text could not be made)")),
        (ValueError("x" * 5_000), JobError("ValueError", "x" * (ERROR_MESSAGE_CHARS_MAX - 1) + "…")),
        (ValueError(), JobError("ValueError", "")),
        (KeyError("user"), JobError("KeyError", "'user'")),
    ],
    ids=["mute", "long", "empty", "quoted"],
)
async def test_errors_of_all_sorts_can_be_kept(store: Store, error: Exception, kept: JobError) -> None:
    """Q30: the class and the message, truncated."""

    async def work() -> NoReturn:
        raise error

    await store.jobs.enqueue([job("a", max_attempts=1)])
    worker = await run_until_idle(store, build_handlers(work=work))

    [dead_letter] = await dead_letters(store)
    assert dead_letter.error == kept
    assert worker.health().free == worker.settings.capacity


def test_half_a_character_in_an_error_is_made_whole() -> None:
    """Q30: badly decoded bytes in an exception must not keep it from being stored."""
    assert job_error(ValueError("half \ud83d a face")) == JobError("ValueError", "half ? a face")


async def test_an_error_is_reported_and_a_chosen_outcome_is_not(store: Store) -> None:
    """Q39: a listener gets unexpected errors."""
    recorder = EventRecorder()

    async def fail() -> NoReturn:
        raise Fail("on purpose")

    await store.jobs.enqueue([job("a", "boom", max_attempts=1), job("b", "fail")])
    await run_until_idle(store, build_handlers(boom=boom, fail=fail), recorder)

    [raised] = recorder.of_type(CallbackRaised)
    assert (raised.claim.record.id, type(raised.error)) == ("a", Boom)


@pytest.mark.parametrize("result", [b"x" * (RESULT_BYTES_MAX + 1), "not bytes"], ids=["too-large", "not-encodable"])
async def test_a_result_that_cannot_be_kept_is_a_failure_for_a_person_to_see(store: Store, result: Any) -> None:
    runs = []

    async def work() -> Any:
        runs.append(1)
        return result

    await store.jobs.enqueue([job("a", payload=b"")])
    await run_until_idle(store, build_handlers(work=handler_of("work", _taking_bytes(work), codec=RAW, style="whole")))

    [dead_letter] = await dead_letters(store)
    assert (dead_letter.reason, dead_letter.error.cls) == ("failed", "BadResult")
    assert len(runs) == 1


async def number(result: Any) -> int:
    """A coroutine function that returns its argument, whatever its annotation."""
    return result  # type: ignore[no-any-return]


def plain_number(result: Any) -> int:
    """The same in a thread."""
    return result  # type: ignore[no-any-return]


async def pairs(result: Any) -> list[tuple[str, int]]:
    return result  # type: ignore[no-any-return]


async def nothing(result: Any) -> None:
    return result  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "result", "message"),
    [
        (number, "no", 'number(result: Any) returned "no" and is annotated with -> int (Expected `int`, got `str`)'),
        (plain_number, "no", 'plain_number(result: Any) returned "no" and is annotated with -> int (Expected `int`'),
        (number, None, "number(result: Any) returned null and is annotated with -> int (Expected `int`, got `null`)"),
        (number, True, "number(result: Any) returned true and is annotated with -> int"),
        (pairs, [["a", "b"]], "annotated with -> list[tuple[str, int]] (Expected `int`, got `str` - at `$[0][1]`)"),
        (nothing, 1, "nothing(result: Any) returned 1 and is annotated with -> None"),
        (number, "x" * 100_000, 'returned "xxxxxxxxxxx'),
    ],
)
async def test_a_result_that_is_not_as_annotated_fails_the_job_where_it_happens(
    store: Store, function: Callable[..., Any], result: Any, message: str
) -> None:
    """A waiting caller could not read it; the work is done, so it is not repeated."""
    payload = msgspec.json.encode({"result": result})
    await store.jobs.enqueue([job("a", payload=payload, max_attempts=5)])

    await run_until_idle(store, build_handlers(work=function))

    [dead_letter] = await dead_letters(store)
    assert (dead_letter.reason, dead_letter.error.cls, dead_letter.record.attempts) == ("failed", "BadResult", 1)
    assert message in dead_letter.error.message
    assert dead_letter.error.message.endswith("; return what the annotation says, or correct it")


async def maybe(result: Any) -> float | None:
    return result  # type: ignore[no-any-return]


async def moment(result: Any) -> datetime:
    return result  # type: ignore[no-any-return]


async def anything(result: Any) -> Any:
    return result


async def silent(result):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201
    return result


async def several(result: Any) -> Iterable[int]:
    return result  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "result"),
    [
        (number, 5),
        (pairs, [["a", 1]]),
        (nothing, None),
        (maybe, None),
        (maybe, 5),
        (moment, "2030-01-01T00:00:00Z"),
        (anything, {"x": None}),
        (silent, [None]),
        (silent, None),
        (several, [1, 2]),
    ],
)
async def test_a_result_that_a_waiter_can_decode_is_kept(
    store: Store, function: Callable[..., Any], result: Any
) -> None:
    await store.jobs.enqueue([job("a", payload=msgspec.json.encode({"result": result}))])

    await run_until_idle(store, build_handlers(work=function))

    found = await find(store, "a")
    assert found.finished_job is not None
    assert msgspec.json.decode(found.finished_job.result or b"null") == result


def _taking_bytes(function: Callable[[], Any]) -> Callable[[bytes], Any]:
    async def work(_: bytes) -> Any:
        return await function()

    return work


@pytest.mark.parametrize("payload", [b"not json", b'{"number":"seven"}', b"{}", b'{"nummer":7}', b"[]"])
async def test_a_payload_that_does_not_fit_fails_without_a_run(store: Store, payload: bytes) -> None:
    runs = []

    async def work(number: int) -> None:
        runs.append(number)

    await store.jobs.enqueue([job("a", payload=payload)])
    await run_until_idle(store, build_handlers(work=work))

    [dead_letter] = await dead_letters(store)
    assert (dead_letter.reason, dead_letter.error.cls) == ("failed", "BadPayload")
    assert "number: int" in dead_letter.error.message
    assert runs == []


async def test_an_unknown_kind_fails_and_names_the_nearest(store: Store) -> None:
    """T26: a job without a handler is dead at once, with a helpful sentence."""

    async def resize() -> None:
        return

    await store.jobs.enqueue([job("a", "resize-imge"), job("b", "zzz")])
    await run_until_idle(store, build_handlers(**{"resize-image": resize, "send-mail": resize}))

    found = {dead_letter.record.id: dead_letter for dead_letter in await dead_letters(store)}
    assert found["a"].reason == "failed"
    assert found["a"].error == JobError(
        "UnknownKind",
        "no handler for kind 'resize-imge'; did you mean 'resize-image'? Known kinds: resize-image, send-mail",
    )
    assert found["b"].error.message == "no handler for kind 'zzz'; Known kinds: resize-image, send-mail"


async def test_the_jitter_of_a_retry_is_drawn_from_the_workers_rng(flaky: FaultyStore) -> None:
    """T29: full jitter, so that many that failed together do not return together."""
    await flaky.jobs.enqueue(jobs(200, "boom"))

    await run_until_idle(flaky, build_handlers(boom=boom), rng=random.Random(7))
    drawn = [settlement.outcome.jitter_ppm for settlement in flaky.settled if hasattr(settlement.outcome, "jitter_ppm")]

    assert len(set(drawn)) > 190
    assert min(drawn) < JITTER_PPM // 10
    assert max(drawn) > JITTER_PPM * 9 // 10


async def test_the_same_seed_draws_the_same_jitter(flaky: FaultyStore) -> None:
    await flaky.jobs.enqueue(jobs(10, "boom"))

    await run_until_idle(flaky, build_handlers(boom=boom), rng=random.Random(7))
    first = [settlement.outcome for settlement in flaky.settled]
    await flaky.jobs.remove(flaky.settled[0].lease.queue, [str(n) for n in range(10)])
    await flaky.jobs.enqueue(jobs(10, "boom"))
    flaky.settled.clear()
    await run_until_idle(flaky, build_handlers(boom=boom), rng=random.Random(7))

    assert [settlement.outcome for settlement in flaky.settled] == first
