"""Integrity of a shard: what may be amiss in it, what was found, what was put right; and how far a schema has got."""

from typing import Literal

from msgspec import Struct

from headrace.model.event import Bounds, UnreadableLine

Flaw = Literal["unindexed", "bodiless", "doubled", "unleased", "undelivered", "stranded", "unlisted"]

FLAWS: dict[Flaw, str] = {
    "unindexed": "a job that neither waits nor runs, so nobody would ever get it; it is let wait again",
    "bodiless": "a place in line, a lease or a place among the dead letters without its record; it is dropped",
    "doubled": "a job that stands in two places at once; it keeps the one that holds",
    "unleased": "an active job whose lease has no end; it gets one, so that it runs out if nobody extends it",
    "undelivered": "a lease of which nobody knows who holds it; the job is let wait again, uncharged",
    "stranded": "a blocked job that waits behind nothing; it is freed, or merged into the job that waits",
    "unlisted": "a dead letter that no list shows; it is listed again",
}
"""What can be wrong, and what `repair` does about it."""


class Problem(Struct, frozen=True, gc=False, order=True):
    """One record that is not as it should be."""

    flaw: Flaw
    id: str
    """The job's; of a dead letter, its number."""


class CountMismatch(Struct, frozen=True, gc=False, order=True):
    """A counter that differs from what it counts."""

    counter: str
    kept: int
    counted: int


class Quarantined(Struct, frozen=True, gc=False):
    """A record that a call missed and went on without."""

    what: Literal["body", "delivery", "dead_letter"]
    id: str


class JournalBreak(Struct, frozen=True, gc=False, order=True):
    """A place where the entries of a journal do not follow each other: numbers that are missing, or there twice."""

    seq: int
    """The first number of the entry after it."""
    after: int
    """The last number of the entry before it."""

    @property
    def is_overlap(self) -> bool:
        """Whether numbers are there twice; readers see the events of the first entry that has them."""
        return self.seq <= self.after

    def __str__(self) -> str:
        if self.is_overlap:
            return f"the events from seq {self.seq} to {self.after} are there twice, and readers see only the first"
        return f"the events from seq {self.after + 1} to {self.seq - 1} are missing"


class Findings(Struct, frozen=True, kw_only=True):
    """What a look at a shard found. Damages, count_mismatches and what is amiss in the journal are those of this part
    of the look, the rest is of the whole shard; `cursor` continues the look and is None at its end."""

    epoch: int = 0
    journal: Bounds = Bounds(0, 1, 0, None, None, 0)
    leases_over: int = 0
    """Leases that ran out and wait for `jobs.repair`, as far as the limit."""
    quarantined: int = 0
    quarantine: tuple[Quarantined, ...] = ()
    """The newest first, as far as the limit."""
    problems: tuple[Problem, ...] = ()
    count_mismatches: tuple[CountMismatch, ...] = ()
    unreadable: tuple[UnreadableLine, ...] = ()
    """Lines of the journal that cannot be read whole. They stay: what was written is never changed."""
    breaks: tuple[JournalBreak, ...] = ()
    """Where the entries of the journal overlap or leave a gap. They stay as well."""
    cursor: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is amiss."""
        return not (self.problems or self.count_mismatches or self.quarantined or self.unreadable or self.breaks)


class RepairResult(Struct, frozen=True, kw_only=True):
    """What a step of the repair put right; `cursor` continues it and is None when the shard is through."""

    problems: tuple[Problem, ...] = ()
    count_mismatches: tuple[CountMismatch, ...] = ()
    cleared: int = 0
    """Entries of the quarantine that were dealt with and let go."""
    cursor: str | None = None

    @property
    def more(self) -> bool:
        """Whether there is more to look at: call again with the cursor."""
        return self.cursor is not None


class Schema(Struct, frozen=True, kw_only=True):
    """How far the schema of a store has got, and how far this Headrace knows."""

    found: int | None
    """None where there is no store yet."""
    known: int
    pending: tuple[str, ...] = ()
    """The steps that opening the store would take, in order."""
    library: str | None = None
    """The functions that this Headrace calls on Redis, by the name of their library."""


class Migrated(Struct, frozen=True, kw_only=True):
    """How far the schema of a store had got, and how far it has got now."""

    before: Schema
    after: Schema


def schema_at(found: int | None, steps: list[str]) -> Schema:
    """The schema of a store that has taken the steps up to a number; each step's name is opened by its own."""
    numbers = {name: int(name.partition("_")[0]) for name in steps}
    pending = tuple(name for name, number in numbers.items() if number > (found or 0))
    return Schema(found=found, known=max(numbers.values()), pending=pending)
