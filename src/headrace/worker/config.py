"""The configuration of a worker: its queues, capacity, leases and intervals."""

import os
import socket
from collections.abc import Mapping, Sequence

from msgspec import Struct

from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import (
    CAPACITY_DEFAULT,
    CAPACITY_MAX,
    PROCESSES_MAX,
    QUEUES_PER_CLAIM_MAX,
    THREADS_MAX,
    WORKER_CHARS_MAX,
)
from headrace.model.names import DEFAULT_TENANT, Queue
from headrace.model.times import Duration, duration_ms
from headrace.model.validate import check_batch, check_text

QueueRef = str | Queue
QueueSelection = Sequence[QueueRef] | Mapping[QueueRef, int]
WEIGHT_MAX = 1_000
LEASE_MS_MIN = 100
"""A shorter lease could not be extended three times over an ordinary network."""


class WorkerConfig(Struct, frozen=True, kw_only=True):
    """The settings of a worker; impossible settings are refused when the worker is built."""

    queues: QueueSelection | None = None
    """Claimed from in this order; a mapping gives shares instead (`{"mail": 3, "reports": 1}`); None takes the queues
    of the handlers. A name belongs to `tenant`. Fail handlers get the dead letters of these queues."""
    tenant: str | None = None
    """The tenant of the named queues, `default` when not given. Without `queues`: the names of the handlers' queues, in
    this tenant."""
    name: str | None = None
    """The worker's name in the journal; built from host and process when not given."""
    capacity: int = CAPACITY_DEFAULT
    """Units of work at once; a job takes the weight of its handler. Use fewer where each job needs a resource such as a
    connection, or runs so long that other workers should take their share."""
    threads: int = 16
    """Plain functions at once."""
    pool_size: int | None = None
    """Handlers with `process=True` at once, each in a process of the pool; the number of cores when not given."""
    lease: Duration = "30s"
    """After this long without a heartbeat, another worker may claim the job."""
    heartbeat: Duration | None = None
    """How often leases are extended; a third of the lease when not given."""
    grace: Duration = "25s"
    """How long running handlers may go on when the worker is stopped."""
    poll: Duration = "10s"
    """How often an idle worker claims without a signal."""
    repair: Duration = "10s"
    """How often queues are repaired: expired leases and jobs are swept."""
    jobs_per_pool_process: int | None = None
    """After so many jobs a process of the pool is replaced; None for never."""


class WorkerSettings(Struct, frozen=True):
    """A validated configuration, in milliseconds and queues."""

    name: str
    queues: dict[Queue, int]
    is_weighted: bool
    capacity: int
    threads: int
    pool_size: int
    lease_ms: int
    heartbeat_ms: int
    grace_ms: int
    poll_ms: int
    repair_ms: int
    jobs_per_pool_process: int | None


def settings_of(
    config: WorkerConfig, handler_queues: Sequence[Queue], fail_queues: Sequence[Queue], suffix: str
) -> WorkerSettings:
    """The settings for a configuration; `handler_queues` and `fail_queues` are those of the handlers, `suffix` makes a
    default name unique."""
    queues = _queues(config, handler_queues)
    # Fail queues come last: dead letters are rare and not urgent. A worker for named queues takes the fail queues of
    # these only: its fail handlers may retry for hours.
    names = {(queue.name, queue.tenant) for queue in queues}
    takes_all = config.queues is None and config.tenant is None
    for fail_queue in fail_queues:
        if takes_all or (fail_queue.name, fail_queue.tenant) in names:
            queues.setdefault(fail_queue, 1)
    if not queues:
        raise BadConfig("the worker has no queue to claim from; register handlers, or name queues")
    name = config.name or f"{socket.gethostname()[:64]}:{os.getpid()}:{suffix}"
    lease_ms = _duration("lease", config.lease, LEASE_MS_MIN)
    heartbeat_ms = lease_ms // 3 if config.heartbeat is None else _duration("heartbeat", config.heartbeat, 1)
    if heartbeat_ms * 2 > lease_ms:
        raise BadConfig(
            f"a heartbeat every {heartbeat_ms:,} ms leaves no second try within a lease of {lease_ms:,} ms;"
            " make the heartbeat at most half of the lease, or leave it out"
        )
    try:
        check_text("name", name, WORKER_CHARS_MAX)
        check_batch("queues", len(queues), QUEUES_PER_CLAIM_MAX)
    except Refused as refused:
        raise BadConfig(f"a worker cannot start: {refused}") from refused
    pool_size = config.pool_size if config.pool_size is not None else (os.cpu_count() or 1)
    return WorkerSettings(
        name,
        queues,
        isinstance(config.queues, Mapping),
        _count("capacity", config.capacity, 1, CAPACITY_MAX),
        _count("threads", config.threads, 1, THREADS_MAX),
        _count("pool_size", pool_size, 1, PROCESSES_MAX),
        lease_ms,
        heartbeat_ms,
        _duration("grace", config.grace, 0),
        _duration("poll", config.poll, 1),
        _duration("repair", config.repair, 1),
        None
        if config.jobs_per_pool_process is None
        else _count("jobs_per_pool_process", config.jobs_per_pool_process, 1, 10**9),
    )


def _queues(config: WorkerConfig, handler_queues: Sequence[Queue]) -> dict[Queue, int]:
    if config.tenant == "*":
        raise BadConfig(
            "a worker claims for one tenant, and tenant '*' means all; start a worker for each, or name queues of"
            ' several tenants in the program: queues=[Queue("mail", "acme"), …]'
        )
    if config.queues is None and config.tenant is None:
        return dict.fromkeys(handler_queues, 1)
    tenant = DEFAULT_TENANT if config.tenant is None else config.tenant
    known = {(queue.name, queue.tenant): queue for queue in handler_queues}
    shards = {queue.name: queue.shards for queue in handler_queues}

    def queue_of(ref: QueueRef) -> Queue:
        if isinstance(ref, Queue):
            return ref
        # A handler's queue may set the number of shards; its queues for other tenants have the same number.
        try:
            return known.get((ref, tenant)) or Queue(ref, tenant, shards.get(ref, 1))
        except Refused as refused:
            raise BadConfig(f"a worker cannot start: {refused}") from refused

    if config.queues is None:
        return {queue_of(queue.name): 1 for queue in handler_queues}
    if isinstance(config.queues, Mapping):
        return {
            queue_of(ref): _count(f"share of queue {ref!r}", share, 1, WEIGHT_MAX)
            for ref, share in config.queues.items()
        }
    if isinstance(config.queues, str):
        raise BadConfig(f"queues is a list of names; found the text {config.queues!r}; write [{config.queues!r}]")
    return {queue_of(ref): 1 for ref in config.queues}


def _count(what: str, value: object, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        raise BadConfig(f"{what} of a worker must be a whole number from {low:,} to {high:,}; found {value!r}")
    return value


def _duration(what: str, value: Duration, least: int) -> int:
    try:
        found = duration_ms(what, value)
    except Refused as refused:
        raise BadConfig(f"a worker cannot start: {refused}") from refused
    if found < least:
        raise BadConfig(f"{what} of a worker must be at least {least} ms; found {found} ms")
    return found
