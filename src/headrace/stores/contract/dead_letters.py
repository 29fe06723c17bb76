"""Dead letters: list, replay, purge."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from headrace.model.finished import DeadLetter, DeadLetterKey
from headrace.model.names import Queue
from headrace.model.results import Page, Replayed
from headrace.model.validate import check_time


class DeadLetterFilter(Struct, frozen=True):
    """Selects dead letters; None matches all. Times are `died_after_ms < died_at_ms <= died_before_ms`."""

    id: str | None = None
    kind: str | None = None
    tag: str | None = None
    reason: str | None = None
    error_class: str | None = None
    died_after_ms: int | None = None
    died_before_ms: int | None = None

    def __post_init__(self) -> None:
        for name in ("died_after_ms", "died_before_ms"):
            if (time_ms := getattr(self, name)) is not None:
                check_time(name, time_ms)

    def matches(self, dead_letter: DeadLetter) -> bool:
        """Whether the filter selects the dead letter."""
        wanted = (
            (self.id, dead_letter.record.id),
            (self.kind, dead_letter.record.kind),
            (self.tag, dead_letter.record.tag),
            (self.reason, dead_letter.reason),
            (self.error_class, dead_letter.error.cls),
        )
        return (
            all(want is None or want == found for want, found in wanted)
            and (self.died_after_ms is None or dead_letter.died_at_ms > self.died_after_ms)
            and (self.died_before_ms is None or dead_letter.died_at_ms <= self.died_before_ms)
        )


ALL_DEAD_LETTERS = DeadLetterFilter()


class DeadLetters(Protocol):
    """Dead letters, under numbers that only grow per shard; kept while `now < until`."""

    async def list(
        self,
        queue: Queue,
        *,
        where: DeadLetterFilter = ALL_DEAD_LETTERS,
        cursor: str | None = None,
        limit: int = 100,
        now_ms: int | None = None,
    ) -> Page[DeadLetter]:
        """Dead letters by shard, then number (oldest first). A call reads 1,000 dead letters at most, so a page may be
        short or empty and still have a cursor."""

    async def replay(
        self,
        queue: Queue,
        picks: Sequence[DeadLetterKey | str],
        *,
        keep_counts: bool = False,
        delay_ms: int = 0,
        spread_ms: int = 0,
        now_ms: int | None = None,
    ) -> Sequence[Replayed]:
        """Turn dead letters into waiting jobs, one atomic step each, in order; a string picks the newest dead letter of
        that id.

        Due after `delay_ms`, the i-th of n another `i * spread_ms / n` later; counters zero unless kept; an
        `expires_at_ms` that has passed is dropped. An id that waits, is blocked or active answers `id_in_use` and keeps
        its dead letter.
        """

    async def purge(self, queue: Queue, picks: Sequence[DeadLetterKey], *, now_ms: int | None = None) -> int:
        """Drop dead letters and return how many there were; each writes the event `purged`."""
