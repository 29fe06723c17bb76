"""Answers of a store, item by item. An expected refusal is an answer; nothing was changed then."""

from typing import Generic, Literal, TypeVar, get_args

from msgspec import Struct

from headrace.model.claim import Claim, Lease
from headrace.model.job import Record, State
from headrace.model.letter import Ending, Letter, LetterKey

Row = TypeVar("Row")
LeaseRefusal = Literal["not_active", "lease_expired", "lease_mismatch"]
LEASE_REFUSALS = frozenset(get_args(LeaseRefusal))


class Enqueued(Struct, frozen=True, gc=False):
    """What became of one job of an enqueue.

    `created`: waits. `updated`: the waiting job was changed. `blocked`: waits behind its active namesake.
    `duplicate`: its idempotency key was used before, nothing changed. Refusals: `conflict` (the key was used for
    other work), `wrong_shards` (the queue has another number of shards), `full` (the queue's `waiting_max`).
    """

    id: str
    status: Literal["created", "updated", "blocked", "duplicate", "conflict", "wrong_shards", "full"]
    until_ms: int | None = None
    """Of a `duplicate`: until when its key is remembered; what it was given to live tells when it was first used."""

    @property
    def ok(self) -> bool:
        """Whether the job is known to the store now."""
        return self.status not in ("conflict", "wrong_shards", "full")


class Extended(Struct, frozen=True, gc=False):
    """What became of one lease of an extend: a new lease, or a refusal."""

    id: str
    status: Literal["extended"] | LeaseRefusal
    lease: Lease | None = None
    cancel_asked: bool = False

    @property
    def ok(self) -> bool:
        """Whether the lease holds on."""
        return self.status == "extended"


class Settled(Struct, frozen=True, gc=False):
    """What became of one settlement: `done`, `retried`, `released`, `dead`, `cancelled`, or a refusal."""

    id: str
    status: Literal["done", "retried", "released", "dead", "cancelled"] | LeaseRefusal
    run_at_ms: int | None = None
    """When it is due again, if it waits again."""
    letter: LetterKey | None = None

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
    """The store's clock at the answer, as that of `Claims`."""


class Cancellation(Struct, frozen=True, gc=False):
    """What became of one id of a cancel.

    `cancelled`: the waiting job or the blocked twin has ended. `asked`: the active one was asked to stop. `active`:
    it runs and was left alone. `not_found`: nothing waits or runs under this id.
    """

    id: str
    status: Literal["cancelled", "asked", "active", "not_found"]
    twin: bool = False
    """Whether a blocked twin was ended."""


class Removed(Struct, frozen=True, gc=False):
    """Whether anything of an id was there to remove."""

    id: str
    status: Literal["removed", "not_found"]


class Replayed(Struct, frozen=True, gc=False):
    """What became of one letter of a replay; `id_in_use` keeps the letter."""

    key: LetterKey | None
    id: str | None
    status: Literal["replayed", "not_found", "id_in_use"]


class Repaired(Struct, frozen=True, gc=False):
    """What a sweep found: leases that had run out, and what was dropped because its time was over."""

    stalled: int = 0
    swept: int = 0
    more: bool = False
    """Whether a bound was reached: sweep again."""


class Counts(Struct, frozen=True, gc=False):
    """How many jobs of a queue stand where. Done, cancelled and dead count what is kept and not yet swept."""

    waiting: int = 0
    later: int = 0
    """Those of the waiting ones that were not yet ready."""
    blocked: int = 0
    active: int = 0
    done: int = 0
    cancelled: int = 0
    dead: int = 0
    oldest_due_ms: int | None = None
    """Since when the first in line of some priority has been due; None when nothing is due."""

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


class Found(Struct, frozen=True, gc=False):
    """Everything a store knows of one id. The lease is shown without its token: to see is not to own."""

    id: str
    state: State
    record: Record | None = None
    twin: Record | None = None
    worker: str | None = None
    fence: int | None = None
    lease_expires_at_ms: int | None = None
    cancel_asked: bool = False
    ending: Ending | None = None
    letters: tuple[Letter, ...] = ()
    why: str | None = None
    """Why it is not running, in words, if it waits."""


class Page(Struct, Generic[Row], frozen=True):
    """A part of a list; `cursor` continues it and is None at the end."""

    rows: list[Row]
    cursor: str | None
