"""One process of a pool, as its parent sees it: on the event loop, without a thread."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from headrace.model.limits import PROCESS_EXIT_MS, PROCESS_START_MS
from headrace.worker.logs import chosen_logs
from headrace.worker.pools import main_module
from headrace.worker.pools.messages import (
    BadMessage,
    ChildRaised,
    ChildTask,
    ProcessDied,
    Ready,
    Returned,
    Setup,
    TaskProgress,
    TaskRaised,
    ToChild,
    ToParent,
    Unpacker,
    packed,
)
from headrace.worker.pools.orphan_killer import OrphanKiller

OnProgress = Callable[[float, str], None]
Answer = Ready | Returned | TaskRaised

NOTHING = memoryview(b"")
READ_BYTES = 256 * 1024
LOOK_S = 0.01
"""How often it is looked whether a process is dead, where the system cannot tell."""
# The folder first: a program may have found this package by a path that a new Python does not know.
CODE = (
    "import sys; sys.path[0] = sys.argv.pop(1);"
    " from headrace.worker.pools.child import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)


class Process:
    """A process in a session of its own, which does one task at a time. Made by `start`, over after `kill` or
    `retire`, or when it dies by itself."""

    def __init__(self, popen: subprocess.Popen[bytes], link: socket.socket, guard: OrphanKiller) -> None:
        self.pid = popen.pid
        self.jobs = 0
        self._popen = popen
        self._link = link
        self._guard = guard
        self._loop = asyncio.get_running_loop()
        self._unpacker: Unpacker[ToParent] = Unpacker(ToParent)  # type: ignore[arg-type]  # a union is a type here
        self._answer: asyncio.Future[Answer] = self._loop.create_future()
        self._on_progress: OnProgress | None = None
        self._unsent = NOTHING
        self._is_sending = False
        self._dead: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(link, self._on_readable)
        # The end of the link is not enough: a program that the handler has forked may hold it open.
        self._pidfd = _pidfd(self.pid)
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._on_death)

    @staticmethod
    async def start(guard: OrphanKiller) -> "Process":
        """A process that is ready; raises `ProcessDied` for one that is dead before it is."""
        ours, theirs = socket.socketpair()
        with theirs:
            words = [str(Path(__file__).parents[3]), str(theirs.fileno()), str(os.getpid())]
            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
            try:
                # Blocks the loop until the new program has begun: some milliseconds, more without a free core.
                popen = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own would take a thread to wait for its end
                    [sys.executable, *flags, "-c", CODE, *words],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        guard.watch(popen.pid)
        process = Process(popen, ours, guard)
        try:
            async with asyncio.timeout(PROCESS_START_MS / 1000):
                await process._ask(setup_of_program())
        except BaseException as error:
            await process.kill()
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"a new process was not ready within {PROCESS_START_MS / 1000:g} s") from None
            raise
        return process

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return not self._dead.done()

    async def run(self, task: ChildTask, on_progress: OnProgress | None = None) -> bytes | None:
        """Do a task and answer its encoded result; raises `ChildRaised` or `ProcessDied`. After a cancellation the
        process still works on it: kill it."""
        self.jobs += 1
        self._on_progress = on_progress
        answer = await self._ask(task)
        self._on_progress = None
        if isinstance(answer, TaskRaised):
            raise ChildRaised(answer.cls, answer.message, answer.how, answer.delay_ms, answer.trace)
        assert isinstance(answer, Returned)
        return answer.result

    async def kill(self) -> None:
        """Kill the process and everything in its group; returns when it is really dead, however often the task is
        cancelled meanwhile."""
        self._kill()
        cancelled = None
        while not self._dead.done():
            try:
                await asyncio.wait([self._dead])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def retire(self) -> None:
        """Let an idle process end by itself, for a while; then kill it, with everything that it has left running."""
        try:
            with suppress(OSError):
                self._link.shutdown(socket.SHUT_WR)
            await asyncio.wait([self._dead], timeout=PROCESS_EXIT_MS / 1000)
        finally:
            await self.kill()

    async def _ask(self, message: ToChild) -> Answer:
        if self._dead.done():
            raise ProcessDied(self._dead.result())
        if self._answer.done():
            self._answer = self._loop.create_future()
        self._unsent = memoryview(packed(message))
        self._send()
        return await self._answer

    def _send(self) -> None:
        """Send as much as goes now, and the rest when it does."""
        try:
            self._unsent = self._unsent[self._link.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._unsent = NOTHING  # the process is dying, and its death is the answer
        if bool(self._unsent) != self._is_sending:
            self._is_sending = bool(self._unsent)
            if self._is_sending:
                self._loop.add_writer(self._link, self._send)
            else:
                self._loop.remove_writer(self._link)

    def _on_readable(self) -> None:
        if self._read() == b"":
            # The process cannot be heard any more: it is ending, or of no use.
            self._loop.remove_reader(self._link)
            self._kill()
            if self._pidfd is None:
                self._look()

    def _read(self) -> bytes | None:
        """Take what has arrived: None when there is nothing now, nothing at all (`b""`) when there never will be."""
        try:
            data = self._link.recv(READ_BYTES)
            for message in self._unpacker.feed(data):
                self._on_message(message)
        except (BlockingIOError, InterruptedError):
            return None
        except (OSError, BadMessage):
            return b""
        return data

    def _on_message(self, message: ToParent) -> None:
        if not isinstance(message, TaskProgress):
            if not self._answer.done():
                self._answer.set_result(message)
        elif self._on_progress is not None:
            # Called by the loop, so that an error in it is the loop's to report and stops no reading.
            self._loop.call_soon(self._on_progress, message.fraction, message.note)

    def _look(self) -> None:
        if self._popen.poll() is None:
            self._loop.call_later(LOOK_S, self._look)
        else:
            self._on_death()

    def _on_death(self) -> None:
        while self._read():  # it may have answered before it died
            pass
        self._loop.remove_reader(self._link)
        self._loop.remove_writer(self._link)
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._kill()  # what it has started; before the wait, after which the number may be somebody else's
        self._guard.forget(self.pid)
        exitcode = self._popen.wait()
        self._link.close()
        self._dead.set_result(exitcode)
        if not self._answer.done():
            self._answer.set_exception(ProcessDied(exitcode))
            self._answer.exception()  # perhaps nobody asks any more

    def _kill(self) -> None:
        if self._popen.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def setup_of_program() -> Setup:
    """What lets the imports of another process work as those of this program, and its log look the same."""
    name, path = main_module.where()
    return Setup(
        [os.fsencode(each) for each in sys.path],
        [os.fsencode(each) for each in sys.argv],
        name,
        None if path is None else os.fsencode(path),
        chosen_logs(),
    )


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or an old one
        return None
