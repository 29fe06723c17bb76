"""Results of integrity checks and repairs of a shard, and the version of a store's schema."""

from typing import Literal

from msgspec import Struct

from headrace.model.event import Bounds, UnreadableLine

Flaw = Literal["unindexed", "bodiless", "doubled", "unleased", "undelivered", "stranded", "unlisted"]

FLAWS: dict[Flaw, str] = {
    "unindexed": "a job in neither the waiting nor the active index, so no claim would find it; it waits again",
    "bodiless": "an index entry of a waiting job, a lease or a dead letter without its record; it is dropped",
    "doubled": "a job in two indexes at once; it keeps the valid one",
    "unleased": "an active job whose lease has no end; it gets one, so that it runs out unless it is extended",
    "undelivered": "a lease without a delivery; the job waits again, and no stall is counted",
    "stranded": "a blocked job without an active job; it is freed, or merged into the waiting job",
    "unlisted": "a dead letter missing from the index; it is listed again",
}
"""The flaws that `check` finds, each with the effect of `repair`."""


class Problem(Struct, frozen=True, gc=False, order=True):
    """A flaw of one record."""

    flaw: Flaw
    id: str
    """The job's id, or the number of a dead letter."""


class CountMismatch(Struct, frozen=True, gc=False, order=True):
    """A counter that differs from the rows it counts."""

    counter: str
    kept: int
    counted: int


class Quarantined(Struct, frozen=True, gc=False):
    """A missing record that a call skipped."""

    what: Literal["body", "delivery", "dead_letter"]
    id: str


class JournalBreak(Struct, frozen=True, gc=False, order=True):
    """A break in the numbering of a journal: missing or repeated numbers."""

    seq: int
    """The first number of the entry after it."""
    after: int
    """The last number of the entry before it."""

    @property
    def is_overlap(self) -> bool:
        """Whether numbers are repeated; readers see the events of the first entry that has them."""
        return self.seq <= self.after

    def __str__(self) -> str:
        if self.is_overlap:
            return f"the events from seq {self.seq} to {self.after} are repeated, and readers see only the first"
        return f"the events from seq {self.after + 1} to {self.seq - 1} are missing"


class Findings(Struct, frozen=True, kw_only=True):
    """The result of one `check` call. Problems, count mismatches and flaws of the journal are those of this part of the
    shard, the other fields are of the whole shard; `cursor` continues the check and is None at its end."""

    epoch: int = 0
    journal: Bounds = Bounds(0, 1, 0, None, None, 0)
    leases_over: int = 0
    """Expired leases that wait for `jobs.repair`, at most `limit`."""
    quarantined: int = 0
    quarantine: tuple[Quarantined, ...] = ()
    """The newest first, at most `limit`."""
    problems: tuple[Problem, ...] = ()
    count_mismatches: tuple[CountMismatch, ...] = ()
    unreadable: tuple[UnreadableLine, ...] = ()
    """Damaged lines of the journal. `repair` leaves them: the journal is never rewritten."""
    breaks: tuple[JournalBreak, ...] = ()
    """Overlaps and gaps of the journal's entries. `repair` leaves them, too."""
    cursor: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the check found no flaw."""
        return not (self.problems or self.count_mismatches or self.quarantined or self.unreadable or self.breaks)


class RepairResult(Struct, frozen=True, kw_only=True):
    """The corrections of one `repair` call. `cursor` continues the repair and is None at its end."""

    problems: tuple[Problem, ...] = ()
    count_mismatches: tuple[CountMismatch, ...] = ()
    cleared: int = 0
    """Entries of the quarantine that were repaired and removed."""
    cursor: str | None = None

    @property
    def more(self) -> bool:
        """Whether to call again with the cursor."""
        return self.cursor is not None


class Schema(Struct, frozen=True, kw_only=True):
    """The version of a store's schema, and the version that this Headrace knows."""

    found: int | None
    """None if the store does not exist yet."""
    known: int
    pending: tuple[str, ...] = ()
    """The steps that opening the store would take, in order."""
    library: str | None = None
    """The functions that this Headrace calls on Redis, by the name of their library."""


class Migrated(Struct, frozen=True, kw_only=True):
    """The schema of a store before and after a migration."""

    before: Schema
    after: Schema


def schema_at(found: int | None, steps: list[str]) -> Schema:
    """The schema of a store with the migrations up to `found`; the name of a migration begins with its number."""
    numbers = {name: int(name.partition("_")[0]) for name in steps}
    pending = tuple(name for name, number in numbers.items() if number > (found or 0))
    return Schema(found=found, known=max(numbers.values()), pending=pending)
