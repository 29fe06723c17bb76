"""The link of a worker process to its supervisor: a socket, served by a thread that no handler blocks."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

from msgspec.structs import replace

from headrace.model.limits import PROCESS_STOP_MARGIN_MS
from headrace.worker.counts import WorkerCounts
from headrace.worker.pools.messages import BadMessage, Unpacker, pack_message
from headrace.worker.supervisor.messages import HealthRequest, Report, Stop, ToSupervisor, ToWorker, WorkerSpec
from headrace.worker.worker import Worker

READ_BYTES = 256 * 1024


class SupervisorLink:
    """The socket to the supervisor; it closes when the supervisor dies."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)  # inheritable for this process only, not for programs that handlers start
        self._link = socket.socket(fileno=fd)
        self._messages = self._receive()
        self._sending = threading.Lock()

    def receive_spec(self) -> WorkerSpec | None:
        """The first message; None if the supervisor has died."""
        first = next(self._messages, None)
        return first if isinstance(first, WorkerSpec) else None

    def serve(self, worker: Worker, counts: WorkerCounts) -> None:
        """Answer the supervisor on a separate thread, also while the worker's loop is blocked."""
        threading.Thread(target=self._serve, args=(worker, counts), name="headrace-supervisor", daemon=True).start()

    def send_report(self, worker: Worker, counts: WorkerCounts, *, running: bool = False) -> None:
        """Send a report of the worker's health and counts."""
        # Read the number of claims first: a worker that is idle afterwards made no claim in between.
        health = worker.health()
        self.send(Report(health if running else replace(health, running=[]), worker.is_idle, counts.copy()))

    def send(self, message: ToSupervisor) -> None:
        """Send a message; returns after the socket has accepted it, or if the supervisor has died."""
        with self._sending, suppress(OSError):
            self._link.sendall(pack_message(message))

    def _serve(self, worker: Worker, counts: WorkerCounts) -> None:
        grace_ms = worker.settings.grace_ms
        for message in self._messages:
            if isinstance(message, HealthRequest):
                self.send_report(worker, counts, running=message.running)
            elif isinstance(message, Stop):
                grace_ms = grace_ms if message.grace_ms is None else min(grace_ms, message.grace_ms)
                worker.stop(message.grace_ms)
        # The supervisor is gone, and nothing else would end this process. A stop without grace time ends it at once.
        worker.stop()
        threading.Event().wait((grace_ms + PROCESS_STOP_MARGIN_MS if grace_ms else 0) / 1000)
        os._exit(1)

    def _receive(self) -> Iterator[ToWorker]:
        unpacker: Unpacker[ToWorker] = Unpacker(ToWorker)  # type: ignore[arg-type]  # a union is a type here
        with suppress(OSError, BadMessage):
            while data := self._link.recv(READ_BYTES):
                yield from unpacker.feed(data)
