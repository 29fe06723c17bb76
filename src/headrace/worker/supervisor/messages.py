"""The messages between the supervisor and its worker processes: msgpack over a socket, as in the pools."""

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.names import Queue
from headrace.worker.config import WorkerConfig, WorkerSettings
from headrace.worker.counts import WorkerCounts
from headrace.worker.health import WorkerHealth
from headrace.worker.pools.messages import Setup


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
