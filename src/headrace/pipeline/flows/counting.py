"""What doing work again came to, or would come to: counts, and the groups that a person decides by."""

from msgspec import Struct

GROUPS_MAX = 1_000
"""Groups that are told of: more nobody reads, and kinds or errors may be many."""


class DeadLetterGroup(Struct, frozen=True, kw_only=True):
    """Dead letters that are alike."""

    tenant: str
    queue: str
    kind: str
    error_class: str | None
    reason: str
    dead_letters: int
    first_died_at_ms: int
    last_died_at_ms: int


class Replays(Struct, frozen=True, kw_only=True):
    """What became of the dead letters that matched. In a dry run only `found` and `groups` are told."""

    found: int
    replayed: int = 0
    in_use: int = 0
    """Dead letters that stay because their id waits, is blocked or runs."""
    not_found: int = 0
    """Dead letters that somebody else replayed or purged meanwhile."""
    refused: dict[str, int] = {}
    examples: dict[str, str] = {}
    """A sentence for each reason."""
    groups: tuple[DeadLetterGroup, ...] = ()
    """The largest first; a thousand at most."""
    died_before_ms: int
    """No later death was looked at; give it to the next call to mean the same dead letters."""
    dry: bool = False

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self) -> str:
        """The counts for a person."""
        if not self.found:
            return "no dead letter matches"
        if self.dry:
            return f"{_counted(self.found, 'dead letter')} would be replayed"
        counts = {name: getattr(self, name) for name in ("replayed", "in_use", "not_found")}
        return f"of {_counted(self.found, 'dead letter')} {_told(counts, self.refused, self.examples)}"


class JobGroup(Struct, frozen=True, kw_only=True):
    """Jobs of the past that are alike, by the queue and kind that they had."""

    tenant: str
    queue: str
    kind: str | None
    jobs: int
    missing: int
    events: int


class Backfilled(Struct, frozen=True, kw_only=True):
    """What became of the jobs behind the events that matched. In a dry run nothing is created."""

    events: int
    """Events that match."""
    jobs: int
    """Lives of jobs that they tell of; each is one job again."""
    created: int = 0
    duplicate: int = 0
    """Jobs that an earlier run of this name has made again."""
    folded: int = 0
    refused: dict[str, int] = {}
    examples: dict[str, str] = {}
    """A sentence for each reason."""
    missing: int = 0
    """Jobs whose payload (or kind) nobody knows any more; they are not enqueued."""
    missing_examples: tuple[str, ...] = ()
    """Some of them, as tenant/queue/id."""
    groups: tuple[JobGroup, ...] = ()
    """The largest first; a thousand at most."""
    origin: str = "history"
    happened_before_ms: int = 0
    """No later event was looked at; give it to the next call to mean the same jobs."""
    dry: bool = False

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self) -> str:
        """The counts for a person, with a job whose payload is missing."""
        if not self.events:
            return "no event matches"
        if not self.jobs:
            return f"{_counted(self.events, 'event')} match, and none tells of a job"
        missing = ""
        if self.missing:
            missing = (
                f"; of {_counted(self.missing, 'job')} the payload or kind is not known, for example"
                f" {self.missing_examples[0]}"
            )
        if self.dry:
            return f"{_counted(self.jobs - self.missing, 'job')} would be enqueued again{missing}"
        counts = {name: getattr(self, name) for name in ("created", "duplicate", "folded")}
        return f"of {_counted(self.jobs, 'job')} {_told(counts, self.refused, self.examples)}{missing}"


def _told(counts: dict[str, int], refused: dict[str, int], examples: dict[str, str]) -> str:
    parts = [f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items() if count]
    if refused:
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(refused.items()))
        example = examples[max(refused, key=lambda reason: refused[reason])]
        parts.append(f"{sum(refused.values()):,} refused ({reasons}; for example: {example})")
    return ", ".join(parts) or "none was enqueued"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
