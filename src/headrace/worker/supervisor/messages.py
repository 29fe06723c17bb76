"""What the supervisor and its worker processes say to each other: msgpack over a socket, as the pools do."""

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.names import Queue
from headrace.worker.config import WorkerConfig, WorkerSettings
from headrace.worker.counts import WorkerCounts
from headrace.worker.health import WorkerHealth
from headrace.worker.pools.messages import Setup


class AppSource(Struct, frozen=True):
    """Where another process finds the app: a function, `module:function`, makes it of its orders."""

    builder: str
    words: list[str]
    """What the function needs to know besides."""


class WorkerSpec(Struct, frozen=True, tag="orders"):
    """The first message to a worker process: all that it needs to work."""

    setup: Setup
    number: int
    """Which process it is, from 1."""
    source: AppSource
    url: str
    kinds: list[str]
    """Those that the supervisor has found in the app: where a process finds others, it would not do all of the work."""
    settings: WorkerSettings
    shares: list[tuple[Queue, int]]
    """The queues of the settings, in their order; they are no keys that MessagePack has."""
    name: str | None
    """What the worker is called in the journal; its own host and process when not given."""
    is_thorough: bool
    wait: bool
    """Whether a store that is away is waited for."""
    jobs: bool
    """Whether single jobs are logged."""
    payloads: bool
    counts: bool
    """Whether the process counts for metrics: about a microsecond a job, which nobody pays for who does not ask."""

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


class HealthRequest(Struct, frozen=True, tag="look"):
    """Asks how the worker is."""

    running: bool
    """Whether the jobs in hand are to be listed."""


class Stop(Struct, frozen=True, tag="stop"):
    """Asks the worker to stop; None is the grace of its settings."""

    grace_ms: int | None


class Report(Struct, frozen=True, tag="report"):
    """How the worker is."""

    health: WorkerHealth
    is_idle: bool
    counts: WorkerCounts


class WorkerFailed(Struct, frozen=True, tag="failed"):
    """The worker is impossible, and starting it again would change nothing."""

    cls: str
    message: str
    reason: str = ""


ToWorker = WorkerSpec | HealthRequest | Stop
ToSupervisor = Report | WorkerFailed
_PLAIN: dict[str, type[HeadraceError]] = {cls.__name__: cls for cls in (BadConfig, StoreUnavailable, OutcomeUnknown)}


def portable(settings: WorkerSettings) -> WorkerSettings:
    """Settings as they travel: without the queues, which go beside them."""
    return replace(settings, queues={})


def failed_of(error: HeadraceError) -> WorkerFailed:
    """An error as it travels."""
    return WorkerFailed(type(error).__name__, str(error), getattr(error, "reason", ""))


def error_of(failed: WorkerFailed) -> HeadraceError:
    """The error that a worker process ended with."""
    cls = _PLAIN.get(failed.cls)
    return Refused(failed.reason or "bad_worker", failed.message) if cls is None else cls(failed.message)
