"""What an audit tells: its findings, and how much it has looked at."""

from typing import Literal, get_args

from msgspec import Struct

What = Literal[
    "lost",
    "untold",
    "stray",
    "unknown",
    "state",
    "fence",
    "counts",
    "kind",
    "due",
    "payload",
    "blocked_job",
    "finished_job",
    "no_dead_letter",
    "deathless",
    "dead_letter",
    "misplaced",
    "twice",
    "gap",
    "doubled",
    "backwards",
    "impossible",
    "count",
    "damage",
]
WHATS: tuple[str, ...] = get_args(What)

MEANINGS: dict[What, str] = {
    "lost": "the journal says that a job waits or runs, and the store does not hold it",
    "untold": "a job is over in the store, and the journal lacks the event of its end",
    "stray": "the store holds a job that waits or runs, and the journal says that it is over",
    "unknown": "the store holds a job, and no event tells of it",
    "state": "a job waits in one of the two and runs in the other",
    "fence": "a job runs under another fence than it was handed out with, or its fences do not grow",
    "counts": "attempts or stalls differ",
    "kind": "the kind differs",
    "due": "a waiting job is due at another time",
    "payload": "the payload has another size",
    "blocked_job": "a blocked job is missing, is there without having been enqueued, or is another one",
    "finished_job": "the store keeps another finished job than the journal tells of, or one that was deleted",
    "no_dead_letter": "a death without its dead letter, which nobody replayed, purged or removed",
    "deathless": "a dead letter without a death, or one that was replayed, purged or removed",
    "dead_letter": "a dead letter has another kind, reason, or number of attempts or stalls than its death",
    "misplaced": "a job in a shard that its id does not belong to",
    "twice": "a misplaced job that its own shard holds as well",
    "gap": "numbers of events are missing",
    "doubled": "two events, or two deaths' dead letters, have the same number",
    "backwards": "an event is older than the one before it",
    "impossible": "an event that cannot follow the one before it, as an end without a delivery",
    "count": "a counter of the queue differs from what it counts",
    "damage": "records of the store do not fit together, whatever the journal says",
}
"""What can be found, and what it means."""

TORN: frozenset[What] = frozenset({"gap", "doubled", "untold"})
"""What shows that the journal of a shard lacks events."""


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that does not add up."""

    what: What
    tenant: str
    queue: str
    shard: int
    id: str | None = None
    """The job's; None where it is no job's."""
    journal: str
    """What the journal says, in words."""
    store: str
    """What the store says, in words."""
    seq: int | None = None
    """The event that it is about."""
    hint: str
    """What to do."""

    @property
    def place(self) -> tuple[str, str, int]:
        """The shard that it is about."""
        return self.tenant, self.queue, self.shard

    @property
    def order(self) -> tuple[str, str, int, str, int, str]:
        """By place, then job, so that what belongs together stands together."""
        return self.tenant, self.queue, self.shard, self.id or "", self.seq or 0, self.what


class Audit(Struct, frozen=True, kw_only=True):
    """What an audit has looked at, and what it found."""

    events: int
    jobs: int
    """Ids that the journal or the store knows."""
    shards: int
    looks: int
    """Jobs that were looked at a second time: they differed, or moved meanwhile."""
    findings: tuple[Finding, ...] = ()
    more: int = 0
    """Jobs beyond those that were looked at a second time, and damages beyond those that are listed; mend what was
    found, then audit again."""
    partly: int = 0
    """Jobs whose events are no longer all there: what their events do not tell was not checked."""
    moving: int = 0
    """Jobs that moved at every look, or whose journal was cut or made anew meanwhile: nothing is said of them."""

    @property
    def ok(self) -> bool:
        """Whether everything that could be checked adds up."""
        return not self.findings and not self.more
