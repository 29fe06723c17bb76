"""Results of store calls, item by item. An expected refusal is a result, too; it changed nothing."""

from typing import Generic, Literal, TypeVar, get_args

from msgspec import Struct

from headrace.model.claim import Claim, Lease
from headrace.model.feed import Changed, FeedConfig, FeedCursor, FeedName, Item
from headrace.model.finished import DeadLetter, DeadLetterKey, FinishedJob
from headrace.model.integrity import Schema
from headrace.model.job import Record, State
from headrace.model.names import Queue

Row = TypeVar("Row")
LeaseRefusal = Literal["not_active", "lease_expired", "lease_mismatch"]
LEASE_REFUSALS = frozenset(get_args(LeaseRefusal))


class Enqueued(Struct, frozen=True, gc=False):
    """The result of one job of an enqueue.

    `created`: waits. `updated`: the waiting job was changed. `blocked`: waits behind the active job of its id.
    `duplicate`: its idempotency key was used before, nothing changed. Refusals: `conflict` (the key was used for
    other work), `wrong_shards` (the queue has another number of shards), `full` (the queue's `waiting_max`).
    """

    id: str
    status: Literal["created", "updated", "blocked", "duplicate", "conflict", "wrong_shards", "full"]
    until_ms: int | None = None
    """Of a `duplicate`: until when its key is remembered; minus the key's TTL, when it was first used."""

    @property
    def ok(self) -> bool:
        """Whether the store has the job now."""
        return self.status not in ("conflict", "wrong_shards", "full")


class Extended(Struct, frozen=True, gc=False):
    """The result of one lease of an extend: a new lease, or a refusal."""

    id: str
    status: Literal["extended"] | LeaseRefusal
    lease: Lease | None = None
    cancel_asked: bool = False

    @property
    def ok(self) -> bool:
        """Whether the lease was extended."""
        return self.status == "extended"


class Settled(Struct, frozen=True, gc=False):
    """The result of one settlement: `done`, `retried`, `released`, `dead`, `cancelled`, or a refusal."""

    id: str
    status: Literal["done", "retried", "released", "dead", "cancelled"] | LeaseRefusal
    run_at_ms: int | None = None
    """When it is due, if it waits again."""
    dead_letter: DeadLetterKey | None = None

    @property
    def ok(self) -> bool:
        """Whether the settlement was accepted."""
        return self.status not in LEASE_REFUSALS


class Turned(Struct, frozen=True, gc=False):
    """The answer to a turn: settled, then claimed."""

    settled: list[Settled]
    claimed: list[Claim]
    next_at_ms: int | None
    now_ms: int
    """The store's clock at the answer, as in `Claims`."""


class Cancellation(Struct, frozen=True, gc=False):
    """The result of one id of a cancel.

    `cancelled`: the waiting job or the blocked job has ended. `asked`: the active one was asked to stop. `active`:
    it runs and was left alone. `not_found`: no job waits or runs under this id.
    """

    id: str
    status: Literal["cancelled", "asked", "active", "not_found"]
    blocked_job: bool = False
    """Whether a blocked job was ended."""


class Removed(Struct, frozen=True, gc=False):
    """Whether a record of an id was removed."""

    id: str
    status: Literal["removed", "not_found"]


class Replayed(Struct, frozen=True, gc=False):
    """The result of one dead letter of a replay; `id_in_use` keeps the dead letter."""

    key: DeadLetterKey | None
    id: str | None
    status: Literal["replayed", "not_found", "id_in_use"]


class Repaired(Struct, frozen=True, gc=False):
    """The result of a sweep: the number of expired leases, and of rows dropped at the end of their retention."""

    stalled: int = 0
    swept: int = 0
    more: bool = False
    """Whether a limit was reached: sweep again."""


class Counts(Struct, frozen=True, gc=False):
    """The jobs of a queue by state. Done, cancelled and dead count the rows that were not swept yet."""

    waiting: int = 0
    later: int = 0
    """The waiting jobs that are not yet ready."""
    blocked: int = 0
    active: int = 0
    done: int = 0
    cancelled: int = 0
    dead: int = 0
    oldest_due_ms: int | None = None
    """The earliest due time among the first ready jobs of each priority; None if no job is due."""

    @property
    def open(self) -> int:
        """The jobs that are not finished."""
        return self.waiting + self.active + self.blocked

    def __add__(self, other: "Counts") -> "Counts":
        oldest = [each for each in (self.oldest_due_ms, other.oldest_due_ms) if each is not None]
        return Counts(
            self.waiting + other.waiting,
            self.later + other.later,
            self.blocked + other.blocked,
            self.active + other.active,
            self.done + other.done,
            self.cancelled + other.cancelled,
            self.dead + other.dead,
            min(oldest, default=None),
        )


class QueueOverview(Struct, frozen=True):
    """A queue with its counts."""

    queue: Queue
    version: int
    """The version of its configuration."""
    paused: bool
    counts: Counts
    last_seq: int
    """The number of events ever written, the sum over its shards: equal means that nothing has happened."""


class Found(Struct, frozen=True, gc=False):
    """Everything the store knows of one id. The lease has no token: a reader may not settle."""

    id: str
    state: State
    record: Record | None = None
    blocked_job: Record | None = None
    worker: str | None = None
    fence: int | None = None
    lease_expires_at_ms: int | None = None
    cancel_asked: bool = False
    finished_job: FinishedJob | None = None
    dead_letters: tuple[DeadLetter, ...] = ()
    why: str | None = None
    """Why a waiting job does not run, in words."""
    ahead: int | None = None
    """How many ready jobs will be handed out before this ready one; only on request, and None beyond `AHEAD_MAX`."""


class Page(Struct, Generic[Row], frozen=True):
    """A part of a list; `cursor` continues it and is None at the end."""

    rows: list[Row]
    cursor: str | None


class Published(Struct, frozen=True, gc=False):
    """The result of one publication.

    `published`: a new item. `edited`: the known item was replaced. Refusals: `known` (an item queue has this id),
    `unknown` (an edit of an unknown item), `unknown_neighbour` (the position is next to an unknown item), `full`
    (`items_max` of a sorted feed or an item queue, or all numbers are used).
    """

    id: str | None
    """The id, given or drawn by the store; None if the store refused before drawing it."""
    status: Literal["published", "edited", "known", "unknown", "unknown_neighbour", "full"]

    @property
    def ok(self) -> bool:
        """Whether the item is in the feed now."""
        return self.status in ("published", "edited")


class Retracted(Struct, frozen=True, gc=False):
    """Whether an item was retracted."""

    id: str
    status: Literal["retracted", "not_found"]


class Moved(Struct, frozen=True, gc=False):
    """The result of one move; `unchanged` if the item is at that position already."""

    id: str
    status: Literal["moved", "unchanged", "unknown", "unknown_neighbour"]


class ItemsSnapshot(Struct, frozen=True):
    """Items in the order of the feed, as they were at position `as_of` of its log; None if the feed does not exist."""

    rows: list[Item]
    as_of: FeedCursor | None
    cursor: str | None = None
    """Continues a list; None at its end."""


class Changes(Struct, frozen=True):
    """Changes after a cursor, oldest first.

    `kept`: the next ones, without a gap. `gap`: some were dropped or lost, so there are no rows; read the items again.
    `gone`: the feed does not exist, or another one has its name.
    """

    status: Literal["kept", "gap", "gone"]
    rows: list[Changed]
    cursor: FeedCursor | None
    """The cursor after the last row, or at the end of the log after a gap; None if the feed does not exist."""
    more: bool = False
    """Whether the page ended before the log did."""


class FeedState(Struct, frozen=True):
    """The configuration and counters of a feed."""

    feed: FeedName
    config: FeedConfig
    cursor: FeedCursor
    """The end of its log."""
    items: int
    total: int
    """Publications and edits, ever."""
    first_seq: int
    """The oldest kept change; one more than the cursor's if none is kept."""
    changes_bytes: int
    created_at_ms: int
    changed_at_ms: int


class SnapshotRow(Struct, frozen=True, order=True):
    """One record, without its body. An id may have several: active and blocked, a finished job, dead letters."""

    id: str
    state: State
    kind: str
    priority: int | None
    attempts: int
    stalls: int
    run_at_ms: int | None = None
    fence: int | None = None
    dead_letter: int | None = None


class Snapshot(Struct, frozen=True):
    """The records of a shard as of `as_of_seq` of its journal; ordered by id, then state."""

    epoch: int
    as_of_seq: int
    rows: list[SnapshotRow]


View = Literal["next", "later", "active", "blocked", "finished", "dead"]
"""The orders in which jobs are browsed."""
VIEWS: tuple[str, ...] = get_args(View)

Group = Literal["alive", "ended", "dead"]
"""The rows of a scan: jobs that wait or run (with their blocked jobs), finished jobs, or dead letters."""
GROUPS: tuple[str, ...] = get_args(Group)


class IdRange(Struct, frozen=True):
    """Ids with `after < id <= upto`; None is no end."""

    after: str = ""
    upto: str | None = None

    def holds(self, id: str) -> bool:
        """Whether the id is in the range."""
        return self.after < id and (self.upto is None or id <= self.upto)


ALL_IDS = IdRange()


class Scan(Struct, frozen=True):
    """A part of a scan, as of `as_of_seq` of the shard's journal.

    Of `alive`, a row is an id with its record, its delivery and its blocked job; of `ended`, one with its finished job;
    of `dead`, one dead letter, so an id may come several times."""

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
    """The state of a store: its durability promise, and warnings for its operator."""

    store: str
    profile: str
    """`durable`, `replicated`, `fast`, or `volatile` for memory."""
    promise: str
    """The profile in words: what survives which failure."""
    version: str
    clock_skew_ms: int
    """The store's clock minus this process's."""
    epoch: int
    """The highest epoch of any shard; 0 while the server that knows the queues is away."""
    server: str = ""
    """The server or library with its version, for people."""
    schema: Schema | None = None
    notes: tuple[str, ...] = ()
    """Warnings about risks to jobs, a sentence each, with what to do."""
