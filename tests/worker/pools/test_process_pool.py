"""The pool of processes: tasks and their results."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import ERROR_MESSAGE_CHARS_MAX
from headrace.worker.pools.process_pool import ChildRaised, ChildTask, ProcessPool
from tests.worker.pools.support import (
    FACTS,
    HERE,
    SOON_S,
    answer_of,
    begin,
    children,
    is_alive,
    open_pool,
    task_of,
    turn_over,
)


async def test_a_task_is_answered_by_its_handler_in_another_process() -> None:
    async with open_pool(1) as pool:
        pid, group, session = await answer_of(pool, "session")

        assert pid != os.getpid()
        assert pid == group == session
        assert await answer_of(pool, "pid") == pid


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        (task_of("nothing"), None),
        (task_of("add", one=1), b"11"),
        (task_of("add", one=1, other=2), b"3"),
        (task_of("slowly", text="a coroutine"), b'"a coroutine from _UnixSelectorEventLoop"'),
        (task_of("Shelf.label"), b'"on the shelf"'),
        (ChildTask(f"{HERE}:decorated", b"\x00\xff", FACTS), b"\xff\x00"),
        (ChildTask(f"{HERE}:listed", b'["a",1,{"class":"E"}]', FACTS, "listed"), b'["a",1,{"class":"E"}]'),
    ],
)
async def test_functions_of_all_shapes_can_be_handlers(task: ChildTask, answer: bytes | None) -> None:
    async with open_pool(1) as pool:
        assert await pool.run(task) == answer


async def test_payloads_and_results_of_full_size_travel() -> None:
    text = "x" * (256 * 1024 - 20)

    async with open_pool(1) as pool:
        assert await answer_of(pool, "echo", text=text) == text


async def test_current_works_in_a_process_and_its_clock_runs_from_what_was_left() -> None:
    limited = msgspec.structs.replace(task_of("context"), remaining_ms=3_600_000)

    async with open_pool(1) as pool:
        job, attempt, fence, is_stopping, unlimited_ms = await answer_of(pool, "context")
        left_ms = json.loads(await pool.run(limited) or b"")[4]
        job_of_coroutine = await answer_of(pool, "context_of_a_coroutine")

    assert [job, attempt, fence, is_stopping, unlimited_ms] == ["job-1", 2, 7, False, None]
    assert 0 < left_ms <= 3_600_000
    assert job_of_coroutine == "job-1"


async def test_progress_reaches_the_parent_before_the_answer() -> None:
    heard: list[tuple[float, str]] = []

    async with open_pool(1) as pool:
        await pool.run(task_of("report"), lambda fraction, note: heard.append((fraction, note)))

    assert heard == [(0.25, "a quarter"), (1, "all")]


async def test_an_error_in_the_progress_callback_harms_no_job(tmp_path: Path) -> None:
    fifo = tmp_path / "said"
    os.mkfifo(fifo)
    received: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: received.append(str(context["exception"])))

    def fail(fraction: float, note: str) -> None:
        raise ValueError(note)

    async with open_pool(1) as pool:
        await pool.start()
        task = asyncio.create_task(pool.run(task_of("report", fifo=str(fifo)), fail))
        await turn_over()
        fifo.read_text()  # the loop stands still meanwhile, so that both are read in one go
        answer = await task

    assert answer is None
    assert received == ["a quarter", "all"]


async def test_a_thread_left_behind_by_a_job_does_not_speak_for_the_next(tmp_path: Path) -> None:
    stray, gate = tmp_path / "stray", tmp_path / "gate"
    os.mkfifo(stray)
    os.mkfifo(gate)
    heard: list[str] = []

    async with open_pool(1) as pool:
        await pool.run(task_of("leave_a_thread", fifo=str(stray)))
        task = asyncio.create_task(
            pool.run(task_of("through_a_pipe", fifo=str(gate)), lambda _, note: heard.append(note))
        )
        await asyncio.to_thread(stray.write_text, "speak")
        await asyncio.to_thread(gate.write_text, "end")
        answer = await task

    assert answer == b'"end"'
    assert "stray" not in heard


@pytest.mark.parametrize(
    ("how", "cls", "message", "asked", "delay_ms"),
    [
        ("value", "ValueError", "the value is wrong", "error", None),
        ("unprintable", "Unprintable", "(its text could not be made)", "error", None),
        ("surrogate", "ValueError", "broken ? text", "error", None),
        ("retry", "Retry", "busy", "retry", 30_000),
        ("fail", "Fail", "no such user", "fail", None),
        ("release", "Release", "released", "release", 60_000),
        ("return", "Retry", "later", "retry", 2_000),
    ],
)
async def test_what_a_handler_raises_arrives_with_what_it_asks_for(
    how: str, cls: str, message: str, asked: str, delay_ms: int | None
) -> None:
    async with open_pool(1) as pool:
        pid = await answer_of(pool, "pid")

        with pytest.raises(ChildRaised) as caught:
            await answer_of(pool, "fail", how=how)

        raised = caught.value
        assert [raised.cls, raised.message, raised.how, raised.delay_ms] == [cls, message, asked, delay_ms]
        assert await answer_of(pool, "pid") == pid


async def test_a_long_message_is_truncated_and_the_trace_names_the_place() -> None:
    async with open_pool(1) as pool:
        with pytest.raises(ChildRaised) as long:
            await answer_of(pool, "fail", how="long")
        with pytest.raises(ChildRaised) as plain:
            await answer_of(pool, "fail", how="value")

    assert len(long.value.message) == ERROR_MESSAGE_CHARS_MAX
    assert 'raise ValueError("the value is wrong")' in plain.value.trace
    assert plain.value.trace in plain.value.__notes__[0]


@pytest.mark.parametrize(
    ("how", "message"), [("unencodable", "cannot be written as JSON"), ("too large", "300002|300,002")]
)
async def test_a_result_that_cannot_be_kept_fails_the_job_with_a_sentence(how: str, message: str) -> None:
    async with open_pool(1) as pool:
        with pytest.raises(ChildRaised, match=message) as caught:
            await answer_of(pool, "fail", how=how)

    assert (caught.value.cls, caught.value.how) == ("BadResult", "fail")


@pytest.mark.parametrize("result", ['"no"', "null"])
async def test_a_result_that_is_not_as_annotated_fails_the_job_with_a_sentence(result: str) -> None:
    async with open_pool(1) as pool:
        with pytest.raises(ChildRaised, match=f"returned {result} and is annotated with -> int") as caught:
            await answer_of(pool, "promise", result=json.loads(result))

    assert (caught.value.cls, caught.value.how) == ("BadResult", "fail")


async def test_a_payload_that_does_not_fit_fails_the_job_with_a_sentence() -> None:
    async with open_pool(1) as pool:
        with pytest.raises(ChildRaised, match="add\\(one: int, other: int = 10\\)") as caught:
            await answer_of(pool, "add", one="1")

    assert (caught.value.cls, caught.value.how) == ("BadPayload", "fail")


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("tests.worker.pools.nowhere:handle", "ModuleNotFoundError: No module named 'tests.worker.pools.nowhere'"),
        ("tests.worker.pools.handlers:handle", "has no 'handle'"),
        ("tests.worker.pools.handlers:NOT_A_FUNCTION", "expected a function; found int"),
        ("tests.worker.pools.handlers", "module:function"),
        ("tests.worker.pools.exits_on_import:handle", "SystemExit: 5"),
    ],
)
async def test_a_handler_that_cannot_be_loaded_is_named_with_the_reason(target: str, why: str) -> None:
    """Q33: a module without the handler fails with a message that contains "Unable to load handler"."""
    async with open_pool(1) as pool:
        pid = await answer_of(pool, "pid")

        with pytest.raises(ChildRaised) as caught:
            await pool.run(ChildTask(target, b"{}", FACTS))

        assert caught.value.message.startswith(f"Unable to load handler {target!r}: ")
        assert why in caught.value.message
        assert caught.value.how == "error"
        assert await answer_of(pool, "pid") == pid


async def test_a_codec_that_only_the_parent_knows_is_refused_with_a_sentence() -> None:
    async with open_pool(1) as pool:
        with pytest.raises(ChildRaised, match="does not know the codec 'yaml'"):
            await pool.run(ChildTask(f"{HERE}:echo", b"{}", FACTS, "named", "yaml"))


async def test_system_exit_is_an_error_of_the_job_and_not_of_the_process() -> None:
    async with open_pool(1) as pool:
        pid = await answer_of(pool, "pid")

        with pytest.raises(ChildRaised, match="SystemExit: 3"):
            await answer_of(pool, "exit_politely")

        assert await answer_of(pool, "pid") == pid


async def test_what_handlers_print_is_seen_as_soon_as_they_end(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    async with open_pool(1) as pool:
        await answer_of(pool, "speak", text="good evening")
        seen = capfd.readouterr()
        await answer_of(pool, "pid")

    assert seen.out == "good evening\n"
    assert seen.err == "good evening\n"


async def test_a_forked_copy_that_returns_from_the_handler_does_not_answer_for_it() -> None:
    async with open_pool(1) as pool:
        pid = await answer_of(pool, "pid")

        answers = [await answer_of(pool, "fork_and_return") for _ in range(3)]

    assert answers == [pid] * 3


async def test_context_variables_do_not_leak_from_job_to_job() -> None:
    async with open_pool(1) as pool:
        assert await answer_of(pool, "paint") == "none"
        assert await answer_of(pool, "paint") == "none"


async def test_processes_are_started_when_they_are_needed_and_used_again() -> None:
    before = children()

    async with open_pool(3) as pool:
        unused = children()
        first = await answer_of(pool, "pid")
        second = await answer_of(pool, "pid")

    assert unused == before
    assert first == second


async def test_start_warms_all_processes_and_starting_again_none() -> None:
    async with open_pool(2) as pool:
        await pool.start()
        warm = set(children())
        await pool.start()
        again = set(children())
        pids = await asyncio.gather(answer_of(pool, "pid"), answer_of(pool, "pid"))

    assert again == warm
    assert set(pids) <= warm
    assert len(set(pids)) == 2


async def test_free_counts_turns_and_more_tasks_than_processes_wait() -> None:
    async with open_pool(1) as pool:
        running = await begin(pool, "forever")
        waiting, cancelled = (asyncio.create_task(answer_of(pool, "pid")) for _ in range(2))
        await asyncio.sleep(0)
        free = pool.free

        cancelled.cancel()
        await running.cancel()
        pid = await waiting

        assert free == 0
        assert pid not in running.pids
        assert pool.free == 1
        assert cancelled.cancelled()


async def test_a_process_is_replaced_after_its_jobs() -> None:
    async with open_pool(1, jobs_max=2) as pool:
        pids = [await answer_of(pool, "pid") for _ in range(5)]

    assert [pids.index(pid) for pid in pids] == [0, 0, 2, 2, 4]
    assert not any(map(is_alive, pids))


async def test_a_task_cancelled_while_its_process_starts_leaves_the_process_to_the_next() -> None:
    async with open_pool(1) as pool:
        first = asyncio.create_task(answer_of(pool, "pid"))
        await turn_over()
        started = children()
        first.cancel()
        await asyncio.wait([first])

        pid = await answer_of(pool, "pid")

    assert first.cancelled()
    assert pid in started


async def test_programs_that_a_handler_starts_can_be_ended() -> None:
    async with open_pool(1) as pool:
        assert await answer_of(pool, "terminate_a_program") == -15


async def test_a_closed_pool_refuses_tasks() -> None:
    pool = ProcessPool(1)
    async with asyncio.timeout(SOON_S):
        await pool.close()

    with pytest.raises(Refused, match="closed"):
        await pool.run(task_of("nothing"))
    with pytest.raises(Refused, match="closed"):
        await pool.start()


@pytest.mark.parametrize(("size", "jobs_max"), [(0, None), (1, 0)])
def test_numbers_that_make_no_pool_are_refused(size: int, jobs_max: int | None) -> None:
    with pytest.raises(BadConfig, match="at least 1"):
        ProcessPool(size, jobs_max=jobs_max)
