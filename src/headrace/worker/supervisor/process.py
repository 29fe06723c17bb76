"""One worker process in the supervisor: starts it, asks for reports over a socket, and waits for its end."""

import asyncio
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from headrace.model.clock import monotonic_ms
from headrace.model.limits import REPORT_BYTES_MAX
from headrace.worker.pools.messages import BadMessage, Unpacker, pack_message
from headrace.worker.supervisor.messages import (
    HealthRequest,
    Report,
    Stop,
    ToSupervisor,
    ToWorker,
    WorkerFailed,
    WorkerSpec,
)

READ_BYTES = 256 * 1024
LAST_MESSAGES_SECONDS = 1.0
"""How long the last messages of a process that has ended may take to arrive."""
# The folder first: a program may have found this package by a path that a new Python does not know. The last
# argument is for `ps`.
CODE = "import sys; sys.path[0] = sys.argv.pop(1); from headrace.app.worker_process import main; main(int(sys.argv[1]))"


class WorkerProcess:
    """A process in its own session: Ctrl-C reaches only the supervisor, which passes it on. Created by `start`."""

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.pid = process.pid
        self.started_ms = monotonic_ms()
        self.report: Report | None = None
        """The last report; after an orderly end it covers all jobs of the process."""
        self.failed: WorkerFailed | None = None
        self._process = process
        self._reader = reader
        self._writer = writer
        self._waiting: list[asyncio.Future[None]] = []

    @staticmethod
    async def start(spec: WorkerSpec, count: int) -> "WorkerProcess":
        """Start a process and send it its spec; raises OSError if the system cannot start it."""
        ours, theirs = socket.socketpair()
        with theirs:
            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
            words = [str(Path(__file__).parents[3]), str(theirs.fileno())]
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *flags,
                    "-c",
                    CODE,
                    *words,
                    f"headrace worker, process {spec.number} of {count}",
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        reader, writer = await asyncio.open_connection(sock=ours)
        started = WorkerProcess(process, reader, writer)
        started._send(spec)
        return started

    async def wait(self) -> int:
        """Read messages until the process has ended; returns its exit code, negative for a signal."""
        reading = asyncio.create_task(self._read())
        try:
            code = await self._process.wait()
            # Not until the link closes: a program forked by a handler may hold it open.
            await asyncio.wait([reading], timeout=LAST_MESSAGES_SECONDS)
        finally:
            reading.cancel()
            self._writer.close()
            for waiting in self._waiting:
                waiting.cancel()
        return code

    async def request_report(self, seconds: float, *, running: bool = False) -> bool:
        """Ask for a new report; False when none arrived in time."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._send(HealthRequest(running))
        done, _ = await asyncio.wait([waiting], timeout=seconds)
        if waiting in self._waiting:
            self._waiting.remove(waiting)
        return bool(done) and not waiting.cancelled()

    def stop(self, grace_ms: int | None) -> None:
        """Stop its worker."""
        self._send(Stop(grace_ms))

    def kill(self) -> None:
        """Kill the process."""
        with suppress(ProcessLookupError):
            self._process.kill()

    async def _read(self) -> None:
        unpacker: Unpacker[ToSupervisor] = Unpacker(ToSupervisor, REPORT_BYTES_MAX)  # type: ignore[arg-type]  # a union is a type here
        try:
            while data := await self._reader.read(READ_BYTES):
                for message in unpacker.feed(data):
                    self._take(message)
        except OSError:
            pass  # it has ended with an unread request
        except BadMessage:
            self.kill()  # its messages are broken, and it is useless

    def _take(self, message: ToSupervisor) -> None:
        if isinstance(message, WorkerFailed):
            self.failed = message
            return
        self.report = message
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    def _send(self, message: ToWorker) -> None:
        if not self._writer.is_closing():  # else the process is ending
            self._writer.write(pack_message(message))
