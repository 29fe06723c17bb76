"""What may be said to an app about jobs, fail handlers and workers, as keyword arguments."""

from typing import TypedDict

from headrace.client.arguments import Style
from headrace.client.codec import Codec
from headrace.client.options import OptionFields
from headrace.model.names import Queue
from headrace.model.times import Duration
from headrace.worker.config import Wishes


class JobFields(OptionFields, total=False):
    """The options that all jobs of a function have, unless `options` says otherwise; and how the function is run."""

    kind: str | None
    """What its jobs are called in the store; the function's name when not given."""
    process: bool
    """Whether it runs in a process of its own, which can be killed when its time is over."""
    weight: int
    """Units of a worker's capacity that it takes."""
    codec: Codec | None
    style: Style
    """`named` (the payload is an object of arguments by name), `whole` (it is the one argument) or `listed`."""


class FailFields(TypedDict, total=False):
    """Whose deaths a fail handler is told of, and how it is run."""

    queue: str | Queue | None
    tenant: str | None
    shards: int | None
    process: bool
    weight: int


class WorkerFields(TypedDict, total=False):
    """The fields of `WorkerConfig`."""

    queues: Wishes | None
    tenant: str | None
    name: str | None
    capacity: int
    threads: int
    pool_size: int | None
    lease: Duration
    heartbeat: Duration | None
    grace: Duration
    poll: Duration
    repair: Duration
    jobs_per_pool_process: int | None


OF_ONE_JOB = ("run_at", "expires_at", "idempotency_key")
"""Options that make no sense for all jobs of a function."""


def with_tenant(config: WorkerFields, tenant: str) -> WorkerFields:
    """The settings of an app's worker: queues that were named without a tenant are those of the app's."""
    if config.get("queues") is None or config.get("tenant") is not None:
        return config
    return {**config, "tenant": tenant}
