"""The pool of processes when processes die, are killed or are closed."""

import asyncio
import contextlib
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from headrace.model.limits import PROCESS_EXIT_MS
from headrace.worker.pools import process
from headrace.worker.pools.process_pool import ProcessDied, ProcessPool
from tests.worker.pools.support import (
    SOON_S,
    answer_of,
    begin,
    children,
    gone,
    is_alive,
    open_files,
    open_pool,
    task_of,
    turn_over,
)

HOUR_US = 3_600_000_000
"""An hour in microseconds, and less than a C unsigned int holds."""


async def write(fifo: Path, text: str) -> None:
    """Let a handler that reads a named pipe go on."""
    async with asyncio.timeout(SOON_S):
        await asyncio.to_thread(fifo.write_text, text)


async def test_a_time_out_kills_the_process_at_once_and_a_replacement_serves_the_next_job() -> None:
    """Q36, TB7: a handler over its time does not run on beside the next owner, and its process is replaced."""
    async with open_pool(1) as pool:
        running = await begin(pool, "forever")

        await running.cancel()

        assert not any(map(is_alive, running.pids))
        assert pool.free == 1
        assert await answer_of(pool, "pid") not in running.pids


@pytest.mark.parametrize("forking", [False, True])
async def test_a_time_out_kills_what_the_handler_has_started_too(forking: bool) -> None:
    """Q36, TB7: nothing of the job runs on."""
    async with open_pool(1) as pool:
        running = await begin(pool, "with_a_grandchild", forking=forking)
        were_alive = [is_alive(pid) for pid in running.pids]

        await running.cancel()

        assert were_alive == [True, True]
        await gone(*running.pids)


async def test_neighbours_of_a_time_out_finish_undisturbed(tmp_path: Path) -> None:
    """Q36, TB7: a process belongs to one job, so killing it affects no other."""
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    async with open_pool(2) as pool:
        neighbour = await begin(pool, "through_a_pipe", fifo=str(fifo))
        victim = await begin(pool, "forever")

        await victim.cancel()
        await write(fifo, "finished")
        answer = await neighbour.task

        assert answer == b'"finished"'
        assert is_alive(*neighbour.pids)


async def test_fifty_time_outs_leave_the_pool_as_it_was() -> None:
    """Q36: a pool survives any number of time-outs, with as many processes and without a zombie or an open file."""
    async with open_pool(4) as pool:
        await pool.start()
        before, files, running = len(children()), open_files(), []

        for _ in range(50):
            running.append(await begin(pool, "forever"))
            if len(running) > 2:
                await running.pop(0).cancel()
        for each in running:
            await each.cancel()

        pids = await asyncio.gather(*(answer_of(pool, "pid") for _ in range(4)))
        assert len(set(pids)) == 4
        assert pool.free == 4
        assert len(children()) == before
        assert all(map(is_alive, children()))
        assert open_files() == files


async def test_a_task_cancelled_again_and_again_still_ends_after_its_process() -> None:
    async with open_pool(1) as pool:
        running = await begin(pool, "forever")

        while not running.task.done():
            running.task.cancel()
            await asyncio.sleep(0)

        assert running.task.cancelled()
        assert not is_alive(*running.pids)


async def test_a_handler_that_holds_the_interpreter_can_be_killed_and_disturbs_no_other() -> None:
    async with open_pool(2) as pool:
        running = await begin(pool, "hold_the_gil", micros=HOUR_US)

        answers = [await answer_of(pool, "add", one=number) for number in range(20)]
        await running.cancel()

        assert answers == [number + 10 for number in range(20)]
        assert not is_alive(*running.pids)


@pytest.mark.parametrize(
    ("name", "argument", "exitcode", "message"),
    [
        ("exit_at_once", {"code": 3}, 3, "exit code 3"),
        ("exit_at_once", {"code": 0}, 0, "exit code 0"),
        ("kill_oneself", {"number": int(signal.SIGKILL)}, -9, "SIGKILL; out of memory?"),
        ("kill_oneself", {"number": int(signal.SIGSEGV)}, -11, "SIGSEGV"),
        ("kill_oneself", {"number": 40}, -40, "signal 40"),
    ],
)
async def test_a_process_that_dies_by_itself_is_reported_with_its_code_and_replaced(
    name: str, argument: dict[str, int], exitcode: int, message: str
) -> None:
    async with open_pool(1) as pool:
        await pool.start()
        files = open_files()

        with pytest.raises(ProcessDied, match=message.replace("?", "[?]")) as caught:
            await answer_of(pool, name, **argument)

        assert caught.value.exitcode == exitcode
        assert await answer_of(pool, "add", one=1) == 11
        assert open_files() == files


async def test_a_death_is_noticed_though_a_forked_program_holds_the_link_open() -> None:
    noted: list[str] = []
    async with open_pool(1) as pool:
        async with asyncio.timeout(SOON_S):
            with pytest.raises(ProcessDied, match="exit code 4"):
                await pool.run(task_of("die_and_leave_a_grandchild"), lambda _, note: noted.append(note))

        await gone(*map(int, noted[0].split()))


async def test_a_reply_sent_before_the_death_of_a_process_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(process, "READ_BYTES", 8)
    async with open_pool(1) as pool:
        pid = await answer_of(pool, "pid")
        task = asyncio.create_task(pool.run(task_of("report", exitcode=3), lambda _, note: heard.append(note)))
        await turn_over()

        with contextlib.suppress(ChildProcessError):  # it was quicker than the loop, and is buried already
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - the loop shall stand still meanwhile
        with pytest.raises(ProcessDied, match="exit code 3"):
            await task

    assert heard == ["a quarter", "all"]


async def test_a_process_that_closes_its_link_is_killed() -> None:
    async with open_pool(1) as pool:
        with pytest.raises(ProcessDied):
            await answer_of(pool, "close_everything")

        assert await answer_of(pool, "add", one=1) == 11


async def test_a_process_that_dies_while_idle_is_not_used_again() -> None:
    async with open_pool(1) as pool:
        pid = await answer_of(pool, "pid")
        os.kill(pid, signal.SIGKILL)
        await gone(pid)

        assert await answer_of(pool, "pid") != pid


async def test_deaths_are_noticed_on_systems_that_cannot_watch_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    assert process._pidfd(os.getpid()) is None
    async with open_pool(1) as pool:
        with pytest.raises(ProcessDied, match="exit code 3"):
            await answer_of(pool, "exit_at_once", code=3)
        running = await begin(pool, "forever")

        await running.cancel()

        assert not is_alive(*running.pids)
        assert await answer_of(pool, "add", one=1) == 11


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_signals_for_the_worker_do_not_end_a_job(tmp_path: Path, number: int) -> None:
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    async with open_pool(1) as pool:
        running = await begin(pool, "through_a_pipe", fifo=str(fifo))

        os.kill(running.pids[0], number)
        await write(fifo, "finished")

        assert await running.task == b'"finished"'


async def test_close_ends_idle_busy_and_starting_processes_and_leaves_nothing() -> None:
    before, files = children(), open_files()
    pool = ProcessPool(3)
    await answer_of(pool, "pid")
    running = await begin(pool, "with_a_grandchild")
    starting = [asyncio.create_task(answer_of(pool, "pid")) for _ in range(2)]
    waiting = asyncio.create_task(pool.run(task_of("nothing")))
    await turn_over()

    loop = asyncio.get_running_loop()
    began_at = loop.time()
    await pool.close()
    took_s = loop.time() - began_at
    await asyncio.wait([running.task, *starting, waiting])

    assert took_s < 2 * PROCESS_EXIT_MS / 1000
    assert running.task.cancelled()
    assert waiting.cancelled()
    assert children() == before
    assert open_files() == files
    await gone(*running.pids)


async def test_close_kills_an_idle_process_that_does_not_end() -> None:
    pool = ProcessPool(1)
    pid = await answer_of(pool, "refuse_to_end")

    async with asyncio.timeout(SOON_S):
        await pool.close()

    assert not is_alive(pid)


async def test_closing_twice_and_closing_what_was_never_used_does_nothing() -> None:
    pool = ProcessPool(2)

    for _ in range(2):
        await pool.close()

    assert pool.free == 2


async def test_exit_functions_of_an_idle_process_run_on_close(tmp_path: Path) -> None:
    fifo, note = tmp_path / "gate", tmp_path / "note"
    os.mkfifo(fifo)
    pool = ProcessPool(1)
    await answer_of(pool, "write_at_exit", fifo=str(fifo), path=str(note))

    closing = asyncio.create_task(pool.close())
    await write(fifo, "goodbye")
    await closing

    assert note.read_text() == "goodbye"


async def test_a_process_that_dies_while_a_payload_is_sent_is_reported() -> None:
    async with open_pool(1) as pool:
        pid = await answer_of(pool, "pid")
        os.kill(pid, signal.SIGSTOP)
        task = asyncio.create_task(answer_of(pool, "echo", text="x" * 900_000))
        await turn_over()

        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ProcessDied, match="SIGKILL"):
            await task

        assert await answer_of(pool, "echo", text="x" * 250_000)


async def test_a_process_that_cannot_start_is_reported_and_the_pool_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    files = open_files()
    async with open_pool(1) as pool:
        with monkeypatch.context() as broken:
            broken.setattr(process, "CODE", "raise SystemExit(9)")
            with pytest.raises(ProcessDied, match="exit code 9"):
                await answer_of(pool, "pid")
            with pytest.raises(ProcessDied, match="exit code 9"):
                await pool.start()
            broken.setattr("sys.executable", "/nowhere/python")
            with suppress(ProcessDied), pytest.raises(FileNotFoundError):
                await answer_of(pool, "pid")

        assert await answer_of(pool, "add", one=1) == 11
    assert open_files() == files
