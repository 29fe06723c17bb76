"""The report of an audit: its findings, and how much it has compared."""

from typing import Literal

from msgspec import Struct

FindingKind = Literal[
    "lost",  # a job is waiting or running by the journal, and missing in the store
    "unrecorded",  # a job is finished in the store, and the journal lacks the event
    "stray",  # a job is waiting or running in the store, and finished by the journal
    "unknown",  # the store has a job without any event
    "state",  # a job is waiting in one of the two and running in the other
    "fence",  # a job is running under another fence than it was claimed with, or its fences do not grow
    "counts",  # attempts or stalls differ
    "kind",  # the kind differs
    "due",  # a waiting job is due at another time
    "payload",  # the payload has another size
    "blocked_job",  # a blocked job is missing, was never enqueued, or differs
    "finished_job",  # a finished job differs from its event, or was deleted by the journal
    "lost_dead_letter",  # a death without its dead letter, which was not replayed, purged or removed
    "stray_dead_letter",  # a dead letter without a death, or one that was replayed, purged or removed
    "dead_letter",  # a dead letter differs from its death in kind, reason, attempts or stalls
    "misplaced",  # a job in a shard that its id does not belong to
    "twice",  # a misplaced job that exists in its own shard as well
    "gap",  # events are missing
    "duplicate",  # two events, or the dead letters of two deaths, have the same number
    "backwards",  # an event is older than the one before it
    "impossible",  # an event that cannot follow the one before it, such as done without a claim
    "count",  # a counter of the queue differs from the number of its records
    "damage",  # records of the store contradict each other
]

INCOMPLETE: frozenset[FindingKind] = frozenset({"gap", "duplicate", "unrecorded"})
"""Findings which show that the journal of a shard lacks events."""


class Finding(Struct, frozen=True, kw_only=True):
    """One difference between journal and store, or one flaw of either."""

    what: FindingKind
    tenant: str
    queue: str
    shard: int
    id: str | None = None
    """Of a job; None for a finding of a shard."""
    journal: str
    """The state by the journal."""
    store: str
    """The state in the store."""
    seq: int | None = None
    """Of the event concerned."""
    hint: str
    """What to do."""

    @property
    def shard_key(self) -> tuple[str, str, int]:
        """Tenant, queue and index of the shard."""
        return self.tenant, self.queue, self.shard

    @property
    def sort_key(self) -> tuple[str, str, int, str, int, str]:
        """By shard, then job."""
        return self.tenant, self.queue, self.shard, self.id or "", self.seq or 0, self.what


class AuditReport(Struct, frozen=True, kw_only=True):
    """The extent and the findings of an audit."""

    events: int
    jobs: int
    """Ids in the journal or the store."""
    shards: int
    rechecked: int
    """Jobs that were compared a second time, because they differed or moved meanwhile."""
    findings: tuple[Finding, ...] = ()
    unlisted: int = 0
    """Differing jobs beyond the limit of rechecks, and damages beyond the limit of findings."""
    partial: int = 0
    """Jobs whose first events were dropped, so that not all of them could be compared."""
    moving: int = 0
    """Jobs that moved in every recheck, or whose journal was trimmed or created again; not judged."""

    @property
    def ok(self) -> bool:
        """Whether there is no difference."""
        return not self.findings and not self.unlisted
