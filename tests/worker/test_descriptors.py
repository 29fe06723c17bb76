"""A worker without a free file descriptor waits for one, and reports it."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

import pytest

from headrace.stores.contract.store import Store
from tests.support.servers import postgres_server, redis_server
from tests.support.stores import SHARED_URLS
from tests.worker.support import job

ROOT = Path(__file__).resolve().parents[2]


class Process:
    """The other side of tests.worker.descriptor_program."""

    def __init__(self, stdin: IO[str], stdout: IO[str]) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._heard: list[str] = []

    async def tell(self, word: str) -> None:
        """Send a command, and wait until it is done."""
        self._stdin.write(f"{word}\n")
        self._stdin.flush()
        await self.wait_for(word)

    async def wait_for(self, word: str) -> None:
        """Wait until it has printed a word; fails if it ends before."""
        await asyncio.to_thread(self._read_until, word)

    def _read_until(self, word: str) -> None:
        while word not in self._heard:
            line = self._stdout.readline()
            assert line, f"it ended without a word of {word!r}, after {self._heard}"
            self._heard.append(line.strip())


@asynccontextmanager
async def process_at(url: str, beat: str = "thread") -> AsyncIterator[Process]:
    """A process with a store open at the URL, whose worker must end well."""
    command = [sys.executable, "-m", "tests.worker.descriptor_program", url, beat]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe) as popen:  # noqa: ASYNC220 - as a test may
        assert popen.stdin is not None
        assert popen.stdout is not None
        try:
            process = Process(popen.stdin, popen.stdout)
            yield process
            await process.tell("stop")
            await process.wait_for("stopped")
            assert await asyncio.to_thread(popen.wait) == 0
        finally:
            popen.kill()


def cut_connections(store_name: str) -> None:
    """End all connections to a server."""
    if store_name == "postgres":
        postgres_server().ask(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name = 'headrace' AND pid <> pg_backend_pid()"
        )
    else:
        redis_server().ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        redis_server().ask("CLIENT", "KILL", "TYPE", "pubsub")


@pytest.mark.parametrize("shared", ["redis", "postgres"], indirect=True)
async def test_a_worker_that_cannot_connect_for_want_of_descriptors_waits_and_goes_on(
    shared_name: str, shared: Store, tmp_path: Path
) -> None:
    """TB6: connections that are lost then are opened anew as soon as one can be."""
    async with process_at(SHARED_URLS[shared_name](tmp_path)) as process:
        await process.tell("start")
        await shared.jobs.enqueue([job("a"), job("b", delay_ms=1_000)])
        await process.wait_for("finished a")
        await process.tell("take")
        cut_connections(shared_name)
        await process.wait_for("store_lost")
        await process.tell("give")
        await process.wait_for("store_back")
        await process.wait_for("finished b")


@pytest.mark.parametrize("beat", ["thread", "loop"])
async def test_a_worker_that_starts_without_a_free_descriptor_works_as_soon_as_there_are_some(
    beat: str, shared_name: str, shared: Store, tmp_path: Path
) -> None:
    """TB6: the heartbeat, which needs its own loop and store, and the signals wait for them as well."""
    await shared.jobs.enqueue([job("a")])

    async with process_at(SHARED_URLS[shared_name](tmp_path), beat) as process:
        await process.tell("take")
        await process.tell("start")
        await process.tell("give")
        await process.wait_for("finished a")
        await shared.jobs.enqueue([job("b")])
        await process.wait_for("finished b")
