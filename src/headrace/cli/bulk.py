"""Work in bounded steps: counts what became of each item, and tells the count also when the work breaks off."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.limits import BATCH_MAX

T = TypeVar("T")


class StepTally:
    """How many items ended with which status, and how many were looked at."""

    def __init__(self) -> None:
        self.statuses: Counter[str] = Counter()
        self.looked = 0
        self.stopped_early = False
        """Whether more items came than could ever be caught up with."""

    def add(self, statuses: Iterable[str]) -> None:
        """Count what one step did."""
        self.statuses.update(statuses)

    @property
    def matched(self) -> int:
        """How many items were meant."""
        return self.statuses.total()

    def text(self, nothing: str) -> str:
        """The counts for people; `nothing` when there are none."""
        return ", ".join(f"{count:,} {words(status)}" for status, count in self.statuses.items()) or nothing

    def document(self, *, dry_run: bool) -> dict[str, object]:
        """The counts for programs."""
        return {
            "dry_run": dry_run,
            "matched": self.matched,
            "statuses": dict(self.statuses),
            "looked": self.looked,
            "stopped_early": self.stopped_early,
        }


def words(status: str) -> str:
    """A status as people say it."""
    return status.replace("_", " ")


def batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in parts that one call takes."""
    return (items[start : start + BATCH_MAX] for start in range(0, len(items), BATCH_MAX))


@contextmanager
def telling(tally: StepTally) -> Iterator[None]:
    """Within this block, a store that goes away does not hide what earlier steps have done already."""
    try:
        yield
    except (StoreUnavailable, OutcomeUnknown) as error:
        if not tally.statuses:
            raise
        raise OutcomeUnknown(f"{tally.text('')}, and then: {str(error).rstrip('.')}; ask again for the rest") from error
