"""The messages between the supervisor and its worker processes, and the link that carries them."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.limits import PROCESS_STOP_MARGIN_MS
from headrace.model.names import Queue
from headrace.worker.config import WorkerConfig, WorkerSettings
from headrace.worker.health import WorkerCounts, WorkerHealth
from headrace.worker.pools.messages import BadMessage, Setup, Unpacker, pack_message
from headrace.worker.worker import Worker


class AppSource(Struct, frozen=True):
    """Where another process finds the app: a function, `module:function`, builds it from the spec."""

    builder: str
    arguments: list[str]
    """The arguments of the function."""


class WorkerSpec(Struct, frozen=True, tag="spec"):
    """The first message to a worker process: everything needed to run a worker."""

    setup: Setup
    number: int
    """The number of the process, from 1."""
    source: AppSource
    url: str
    kinds: list[str]
    """The kinds that the supervisor found in the app: a process without one of them is refused."""
    settings: WorkerSettings
    shares: list[tuple[Queue, int]]
    """The queues of the settings, in their order; MessagePack cannot have them as keys."""
    name: str | None
    """The worker's name in the journal; None for its own host and process."""
    is_thorough: bool
    wait: bool
    """Whether to wait for an unavailable store."""
    jobs: bool
    """Whether single jobs are logged."""
    payloads: bool
    counts: bool
    """Whether the process counts for metrics, at about a microsecond a job."""

    def config(self) -> WorkerConfig:
        """The configuration of the worker in the process."""
        settings = self.settings
        return WorkerConfig(
            queues=dict(self.shares) if settings.is_weighted else [queue for queue, _ in self.shares],
            name=self.name,
            capacity=settings.capacity,
            threads=settings.threads,
            pool_size=settings.pool_size,
            lease=f"{settings.lease_ms}ms",
            heartbeat=f"{settings.heartbeat_ms}ms",
            grace=f"{settings.grace_ms}ms",
            poll=f"{settings.poll_ms}ms",
            repair=f"{settings.repair_ms}ms",
            jobs_per_pool_process=settings.jobs_per_pool_process,
        )


class HealthRequest(Struct, frozen=True, tag="health"):
    """Asks for a report."""

    running: bool
    """Whether the report lists the running jobs."""


class Stop(Struct, frozen=True, tag="stop"):
    """Stops the worker; None is the grace time of its settings."""

    grace_ms: int | None


class Report(Struct, frozen=True, tag="report"):
    """The worker's health and counts."""

    health: WorkerHealth
    is_idle: bool
    counts: WorkerCounts


class WorkerFailed(Struct, frozen=True, tag="failed"):
    """The worker cannot run, and a restart would not help."""

    cls: str
    message: str
    reason: str = ""


ToWorker = WorkerSpec | HealthRequest | Stop
ToSupervisor = Report | WorkerFailed
_PLAIN: dict[str, type[HeadraceError]] = {cls.__name__: cls for cls in (BadConfig, StoreUnavailable, OutcomeUnknown)}


def without_queues(settings: WorkerSettings) -> WorkerSettings:
    """Settings without the queues, which are sent separately."""
    return replace(settings, queues={})


def failure_of(error: HeadraceError) -> WorkerFailed:
    """An error as a message."""
    return WorkerFailed(type(error).__name__, str(error), getattr(error, "reason", ""))


def error_of(failure: WorkerFailed) -> HeadraceError:
    """The error that a worker process ended with."""
    cls = _PLAIN.get(failure.cls)
    return Refused(failure.reason or "bad_worker", failure.message) if cls is None else cls(failure.message)


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
