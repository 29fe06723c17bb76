"""A snapshot of a shard: every record at one instant of its journal, for comparing the two."""

from msgspec import Struct

from headrace.model.job import State
from headrace.model.upkeep import Schema


class SnapshotRow(Struct, frozen=True, order=True):
    """One record, without its body. An id may have several: active and blocked, an ending, letters."""

    id: str
    state: State
    kind: str
    priority: int | None
    attempts: int
    stalls: int
    run_at_ms: int | None = None
    fence: int | None = None
    letter: int | None = None


class Snapshot(Struct, frozen=True):
    """The records of a shard when its journal ended with `as_of_seq`; ordered by id, then state."""

    epoch: int
    as_of_seq: int
    rows: list[SnapshotRow]


class WorkerSeen(Struct, frozen=True):
    """A worker that claimed from a shard lately."""

    worker: str
    shard: int
    seen_at_ms: int


class Health(Struct, frozen=True):
    """How a store is: what it promises, and what a person should know."""

    store: str
    profile: str
    """`durable`, `replicated`, `fast`, or `volatile` for memory."""
    promise: str
    """In words: what survives what."""
    version: str
    clock_skew_ms: int
    """The store's clock minus this process's."""
    epoch: int
    """The highest epoch of any shard; 0 while the server that knows the queues is away."""
    server: str = ""
    """What does the work, with its version, for people."""
    schema: Schema | None = None
    notes: tuple[str, ...] = ()
    """What endangers jobs, a sentence each, with what to do about it."""
