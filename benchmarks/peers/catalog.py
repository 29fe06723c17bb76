"""Lists the systems that are compared: what is installed, how it is set, and what it guarantees.

Settings and guarantees come from the documentation and the source of the versions that were installed when this was
written. Settings are those that the documentation recommends, or the defaults where it recommends nothing; where it
leaves a number open, the faster one of the default and 100 (threads: 4) was taken.
"""

from typing import Literal, NamedTuple

Kept = Literal["come back", "end as failed", "wait for your own task", "are lost"]


class Peer(NamedTuple):
    """One system on one store."""

    key: str
    name: str
    store: Literal["redis", "postgres", "sqlite"]
    program: str
    """The module of `programs` that runs it."""
    packages: tuple[str, ...]
    """What pip or npm installs; the first one is the system. None for what is in this tree."""
    settings: str
    killed: Kept
    """What becomes of the jobs that a worker had when it was killed."""
    recovery: str
    acknowledged: str
    deduplicated: str
    language: Literal["Python", "JavaScript"] = "Python"
    has_bulk: bool = False
    has_later: bool = True
    needs_setup: bool = False
    only_drain: bool = False
    """Whether it is another setting of a system whose other figures are in its own row."""
    capacity: int | None = None
    url_query: str = ""

    @property
    def is_ours(self) -> bool:
        """Whether it is Headrace."""
        return not self.packages


def ours(key: str, name: str, store: Literal["redis", "postgres", "sqlite"], settings: str, query: str) -> Peer:
    """Headrace on a store: the same guarantees everywhere."""
    return Peer(
        key, name, store, "ours", (), settings,
        "come back", "when the lease ends, 30 s after the last heartbeat", "after the handler, with the lease's token",
        "by id, by idempotency key, and one at a time by singleton",
        has_bulk=True, needs_setup=store != "redis", url_query=query,
    )  # fmt: skip


_REDIS = "`headrace worker --quiet` (no line for each job); Redis keeps nothing on disk (`profile=fast`)"
_HIREDIS = "hiredis>=3"

PEERS = (
    ours("headrace", "Headrace", "redis", _REDIS, "?profile=fast"),
    ours(
        "headrace-1000", "Headrace, capacity 1,000", "redis", "the same with `--capacity 1000`", "?profile=fast"
    )._replace(capacity=1_000, only_drain=True),
    Peer(
        "bullmq", "BullMQ", "redis", "bullmq", ("bullmq", "ioredis"),
        "concurrency 100, finished jobs removed, `addBulk`", "come back", "stalled jobs, looked for every 30 s, once",
        "after the handler, with the lock's token", "by job id, by deduplication id", "JavaScript", has_bulk=True,
    ),
    Peer(
        "taskiq", "taskiq, streams", "redis", "taskiq", ("taskiq", "taskiq-redis", _HIREDIS, "uvloop"),
        "`RedisStreamBroker`, 100 tasks at once, uvloop, no results", "come back", "claimed after 10 min idle",
        "after the handler", "no", has_later=False,
    ),
    Peer(
        "huey", "Huey", "redis", "huey", ("huey", "redis", _HIREDIS),
        "4 threads; blocking pop", "are lost", "popped before it runs", "never", "no",
    ),
    Peer(
        "saq", "SAQ", "redis", "saq", ("saq[redis]", _HIREDIS, "typing_extensions"),
        "concurrency 100", "end as failed", "swept after the job's time-out, 10 s; retried with `retries` > 1",
        "after the handler", "by key",
    ),
    Peer(
        "streaq", "streaQ", "redis", "streaq", ("streaq",),
        "concurrency 100, results not kept", "come back", "claimed after 60 s idle", "after the handler",
        "by function (`unique`), while it runs", has_bulk=True,
    ),
    Peer(
        "dramatiq", "Dramatiq", "redis", "dramatiq", ("dramatiq[redis]", _HIREDIS),
        "8 threads, the default", "come back", "when the worker was silent for 60 s", "after the handler", "no",
    ),
    Peer(
        "celery", "Celery", "redis", "celery", ("celery[redis]", _HIREDIS),
        "a thread per core, `task_acks_late`, prefetch 64 a thread, results ignored, no gossip, mingle or heartbeat",
        "come back", "after the visibility time-out of 1 h", "after the handler (`task_acks_late`)", "no",
    ),
    Peer(
        "arq", "arq", "redis", "arq", ("arq", _HIREDIS),
        "100 jobs at once, polls every 0.5 s, the default; results not kept", "come back",
        "after the job's time-out and 10 s", "after the handler", "by job id",
    ),
    Peer(
        "rq", "RQ", "redis", "rq", ("rq", _HIREDIS),
        "`SimpleWorker`, which does not fork for each job; results not kept", "end as failed",
        "found in the registry of started jobs; retried with `Retry`", "after the handler", "by job id (`unique`)",
        has_bulk=True,
    ),
    ours("headrace-postgres", "Headrace", "postgres", "`headrace worker --quiet`", ""),
    Peer(
        "pgmq", "pgmq, no job layer", "postgres", "pgmq", ("pgmq",),
        "a loop that reads and deletes 100 messages at a time; its SQL from its Python package", "come back",
        "after the visibility time-out, 30 s here", "by deletion, after the handler", "no",
        has_bulk=True, needs_setup=True,
    ),
    Peer(
        "procrastinate", "Procrastinate", "postgres", "procrastinate", ("procrastinate", "psycopg[binary,pool]"),
        "concurrency 100, finished jobs deleted", "wait for your own task", "a task of yours asks for stalled jobs",
        "after the handler", "by queueing lock", has_bulk=True, needs_setup=True,
    ),
    ours(
        "headrace-sqlite", "Headrace", "sqlite", "`headrace worker --quiet`, `profile=fast`", "?profile=fast"
    ),
    Peer(
        "huey-sqlite", "Huey", "sqlite", "huey", ("huey", "redis", _HIREDIS),
        "one thread and `fsync` off, the defaults", "are lost", "taken before it runs", "never", "no", capacity=1,
    ),
)  # fmt: skip
