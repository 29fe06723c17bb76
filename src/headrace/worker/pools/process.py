"""One process of a pool in the parent, driven by the event loop, and the shell that kills orphaned processes."""

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from headrace.model.limits import PROCESS_EXIT_MS, PROCESS_START_MS
from headrace.worker.logging import current_setup
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
    pack_message,
)

LOGGER = logging.getLogger("headrace.worker")
OnProgress = Callable[[float, str], None]
Reply = Ready | Returned | TaskRaised

NOTHING = memoryview(b"")
READ_BYTES = 256 * 1024
POLL_S = 0.01
"""How often to check for the death of a process, on systems without pidfd."""
# The folder first: a program may have found this package by a path that a new Python does not know.
CODE = (
    "import sys; sys.path[0] = sys.argv.pop(1);"
    " from headrace.worker.pools.child import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)


class Process:
    """A process in its own session, which runs one task at a time. Created by `start`; ended by `kill`, by `retire` or
    by itself."""

    def __init__(self, popen: subprocess.Popen[bytes], link: socket.socket, orphan_killer: "OrphanKiller") -> None:
        self.pid = popen.pid
        self.jobs = 0
        self._popen = popen
        self._link = link
        self._orphan_killer = orphan_killer
        self._loop = asyncio.get_running_loop()
        self._unpacker: Unpacker[ToParent] = Unpacker(ToParent)  # type: ignore[arg-type]  # a union is a type here
        self._reply: asyncio.Future[Reply] = self._loop.create_future()
        self._on_progress: OnProgress | None = None
        self._unsent = NOTHING
        self._is_sending = False
        self._dead: asyncio.Future[int] = self._loop.create_future()
        self._loop.add_reader(link, self._on_readable)
        # Not the end of the link: a program forked by the handler may hold it open.
        self._pidfd = _pidfd(self.pid)
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._on_death)

    @staticmethod
    async def start(orphan_killer: "OrphanKiller") -> "Process":
        """Start a process and wait until it is ready; raises `ProcessDied` if it dies before."""
        ours, theirs = socket.socketpair()
        with theirs:
            words = [str(Path(__file__).parents[3]), str(theirs.fileno()), str(os.getpid())]
            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
            try:
                # Blocks the loop until the new program has started: some milliseconds, more without a free core.
                popen = subprocess.Popen(  # noqa: ASYNC220 - asyncio's own needs a thread to wait for the end
                    [sys.executable, *flags, "-c", CODE, *words],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        ours.setblocking(False)
        orphan_killer.watch(popen.pid)
        process = Process(popen, ours, orphan_killer)
        try:
            async with asyncio.timeout(PROCESS_START_MS / 1000):
                await process._request(setup_of_program())
        except BaseException as error:
            await process.kill()
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"a new process was not ready within {PROCESS_START_MS / 1000:g} s") from None
            raise
        return process

    @property
    def is_alive(self) -> bool:
        """Whether the process has not died."""
        return not self._dead.done()

    async def run(self, task: ChildTask, on_progress: OnProgress | None = None) -> bytes | None:
        """Run a task and return its encoded result; raises `ChildRaised` or `ProcessDied`. After a cancellation the
        process still runs the task: kill it."""
        self.jobs += 1
        self._on_progress = on_progress
        reply = await self._request(task)
        self._on_progress = None
        if isinstance(reply, TaskRaised):
            raise ChildRaised(reply.cls, reply.message, reply.how, reply.delay_ms, reply.trace)
        assert isinstance(reply, Returned)
        return reply.result

    async def kill(self) -> None:
        """Kill the process and its group; returns after its death, even if the task is cancelled meanwhile."""
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
        """Give an idle process a while to exit; then kill it and its children."""
        try:
            with suppress(OSError):
                self._link.shutdown(socket.SHUT_WR)
            await asyncio.wait([self._dead], timeout=PROCESS_EXIT_MS / 1000)
        finally:
            await self.kill()

    async def _request(self, message: ToChild) -> Reply:
        if self._dead.done():
            raise ProcessDied(self._dead.result())
        if self._reply.done():
            self._reply = self._loop.create_future()
        self._unsent = memoryview(pack_message(message))
        self._send()
        return await self._reply

    def _send(self) -> None:
        """Send as much as the socket accepts now, and the rest when it is writable."""
        try:
            self._unsent = self._unsent[self._link.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self._unsent = NOTHING  # the process is dying, and `_on_death` ends the request
        if bool(self._unsent) != self._is_sending:
            self._is_sending = bool(self._unsent)
            if self._is_sending:
                self._loop.add_writer(self._link, self._send)
            else:
                self._loop.remove_writer(self._link)

    def _on_readable(self) -> None:
        if self._read() == b"":
            # The link is closed or broken: the process is ending, or useless.
            self._loop.remove_reader(self._link)
            self._kill()
            if self._pidfd is None:
                self._poll_death()

    def _read(self) -> bytes | None:
        """Read the bytes that have arrived: None if there are none yet, `b""` at the end of the link."""
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
            if not self._reply.done():
                self._reply.set_result(message)
        elif self._on_progress is not None:
            # Called by the loop, so that its exception goes to the loop's handler and does not stop the reading.
            self._loop.call_soon(self._on_progress, message.fraction, message.note)

    def _poll_death(self) -> None:
        if self._popen.poll() is None:
            self._loop.call_later(POLL_S, self._poll_death)
        else:
            self._on_death()

    def _on_death(self) -> None:
        while self._read():  # it may have replied before it died
            pass
        self._loop.remove_reader(self._link)
        self._loop.remove_writer(self._link)
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._kill()  # its group; before the wait, after which the pid may be reused
        self._orphan_killer.forget(self.pid)
        exitcode = self._popen.wait()
        self._link.close()
        self._dead.set_result(exitcode)
        if not self._reply.done():
            self._reply.set_exception(ProcessDied(exitcode))
            self._reply.exception()  # mark it as retrieved: perhaps no task awaits it

    def _kill(self) -> None:
        if self._popen.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def setup_of_program() -> Setup:
    """The setup that another process needs for the imports and the log of this program."""
    name, path = main_module.locate()
    return Setup(
        [os.fsencode(each) for each in sys.path],
        [os.fsencode(each) for each in sys.argv],
        name,
        None if path is None else os.fsencode(path),
        current_setup(),
    )


def _pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or an old kernel
        return None


# A shell, because it takes a hundredth of the memory of a Python. It reads the process groups that start and end; its
# input ends with the program, however that dies.
SCRIPT = """
trap '' HUP INT TERM
groups=' '
while read -r verb group; do
    case $verb in
        +) groups="$groups$group " ;;
        -) groups="${groups%% $group *} ${groups#* $group }" ;;
    esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"""


class OrphanKiller:
    """Kills the watched process groups when this program dies: the programs that handlers have started, since the
    processes themselves die anyway. Does nothing on a system without a shell."""

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", SCRIPT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            LOGGER.info("no shell for killing orphaned processes of handlers (%s)", error)

    def watch(self, group: int) -> None:
        """Kill this group when the program dies."""
        self._write(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """Stop watching a group that has ended; call it before its number can be reused."""
        self._write(f"- {group}\n")

    def close(self) -> None:
        """End the shell, without killing any group."""
        if self._shell is not None:
            self._shell.kill()
            self._shell.wait()
            assert self._shell.stdin is not None
            self._shell.stdin.close()
            self._shell = None

    def _write(self, line: str) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            with suppress(OSError):  # the shell was killed; go on without it
                self._shell.stdin.write(line.encode())
