"""Processes of a pool as seen from outside of their program."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.worker.pools.support import HERE, SOON_S, gone, is_alive

PROGRAM = Path(__file__).parent / "program.py"
ROOT = Path(__file__).parents[3]


class Program:
    """The program of the tests, in a process group of its own as a shell would start it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> list[str]:
        """The words of its next line."""
        assert self.process.stdout is not None
        async with asyncio.timeout(SOON_S):
            return (await self.process.stdout.readline()).decode().split(maxsplit=1)

    async def begun(self) -> list[int]:
        """Returns when its task has begun, with the numbers that it printed."""
        word, note = await self.line()
        assert word == "begun"
        return [int(pid) for pid in note.split()]


@asynccontextmanager
async def program(*words: str) -> AsyncIterator[Program]:
    """Start the program; it is gone in the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *words,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        stdout=asyncio.subprocess.PIPE,
        process_group=0,
    )
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("forking", ["true", "false"])
async def test_nothing_survives_a_program_that_is_killed(forking: str) -> None:
    async with program(str(PROGRAM), f"{HERE}:with_a_grandchild", f'{{"forking":{forking}}}') as killed:
        pids = await killed.begun()
        were_alive = [is_alive(pid) for pid in pids]

        killed.process.send_signal(signal.SIGKILL)

        assert were_alive == [True, True]
        await gone(*pids)


async def test_a_handler_that_holds_the_interpreter_dies_with_its_program() -> None:
    async with program(str(PROGRAM), f"{HERE}:hold_the_gil", '{"micros":3600000000}') as killed:
        pids = await killed.begun()

        killed.process.send_signal(signal.SIGKILL)

        await gone(*pids)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_to_the_whole_foreground_group_does_not_end_a_job(tmp_path: Path, number: int) -> None:
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    async with program(str(PROGRAM), f"{HERE}:through_a_pipe", f'{{"fifo":"{fifo}"}}') as asked:
        await asked.begun()

        os.killpg(asked.process.pid, number)
        heard = await asked.line()
        async with asyncio.timeout(SOON_S):
            await asyncio.to_thread(fifo.write_text, "finished")
        answer = await asked.line()

        assert heard == ["asked", f"{int(number)}\n"]
        assert answer == ["answer", "b'\"finished\"'\n"]


@pytest.mark.parametrize("words", [[str(PROGRAM)], ["-m", "tests.worker.pools.program"]])
async def test_handlers_of_the_main_module_are_found_and_its_guard_holds(words: list[str]) -> None:
    async with program(*words, "__main__:own_handler", "{}") as own:
        answer = await own.line()

    assert answer == ["answer", "b'\"__mp_main__ __main__:own_handler {}\"'\n"]


async def test_a_main_module_without_a_guard_is_refused_with_a_sentence() -> None:
    async with program(str(PROGRAM), "__main__:own_handler", "{}", "unguarded") as careless:
        word, message = await careless.line()

    assert word == "raised"
    assert "Unable to load handler '__main__:own_handler'" in message
    assert "if __name__ == '__main__'" in message
