"""A snapshot of a shard: every record at one instant of its journal, for comparing the two."""

from typing import Literal, get_args

from msgspec import Struct

from headrace.model.answers import Found
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


Group = Literal["alive", "ended", "dead"]
"""What a scan goes through: jobs that wait or run (with their twins), endings, or letters."""
GROUPS: tuple[str, ...] = get_args(Group)


class Scan(Struct, frozen=True):
    """A part of a scan, as it stood when the shard's journal ended with `as_of_seq`.

    Of `alive`, a row is an id with its record, its delivery and its twin; of `ended`, one with its ending; of `dead`,
    one letter, so an id may come several times.
    """

    epoch: int
    as_of_seq: int
    rows: list[Found]
    cursor: str | None
    """Continues the scan; None at its end."""


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
