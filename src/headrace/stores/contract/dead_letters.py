"""Dead letters: list, replay, purge."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from headrace.model.finished import Letter, LetterKey
from headrace.model.names import Queue
from headrace.model.results import Page, Replayed
from headrace.model.validate import check_time


class LetterFilter(Struct, frozen=True):
    """Which letters are meant; None matches all. Times are `died_after_ms < died_at_ms <= died_before_ms`."""

    id: str | None = None
    kind: str | None = None
    tag: str | None = None
    reason: str | None = None
    error_class: str | None = None
    died_after_ms: int | None = None
    died_before_ms: int | None = None

    def __post_init__(self) -> None:
        for what in ("died_after_ms", "died_before_ms"):
            if (time_ms := getattr(self, what)) is not None:
                check_time(what, time_ms)

    def matches(self, letter: Letter) -> bool:
        """Whether the letter is meant."""
        wanted = (
            (self.id, letter.record.id),
            (self.kind, letter.record.kind),
            (self.tag, letter.record.tag),
            (self.reason, letter.reason),
            (self.error_class, letter.error.cls),
        )
        return (
            all(want is None or want == have for want, have in wanted)
            and (self.died_after_ms is None or letter.died_at_ms > self.died_after_ms)
            and (self.died_before_ms is None or letter.died_at_ms <= self.died_before_ms)
        )


ALL_LETTERS = LetterFilter()


class Dead(Protocol):
    """The letters of jobs that died, under numbers that only grow per shard; kept while `now < until`."""

    async def list(
        self,
        queue: Queue,
        *,
        where: LetterFilter = ALL_LETTERS,
        cursor: str | None = None,
        limit: int = 100,
        now_ms: int | None = None,
    ) -> Page[Letter]:
        """Letters by shard, then number (oldest first). A page looks at 1,000 letters at most, so it may be short or
        empty and still have a cursor."""

    async def replay(
        self,
        queue: Queue,
        picks: Sequence[LetterKey | str],
        *,
        keep_counts: bool = False,
        delay_ms: int = 0,
        spread_ms: int = 0,
        now_ms: int | None = None,
    ) -> Sequence[Replayed]:
        """Letter out, job in, in one step each, in the order given; a text picks the newest letter of that id.

        Due after `delay_ms`, the i-th of n another `i * spread_ms / n` later; counters zero unless kept; an
        `expires_at_ms` that has passed is dropped. An id that waits, is blocked or active answers `id_in_use` and keeps
        its letter.
        """

    async def purge(self, queue: Queue, picks: Sequence[LetterKey], *, now_ms: int | None = None) -> int:
        """Throw letters away and say how many there were; each writes `purged`."""
