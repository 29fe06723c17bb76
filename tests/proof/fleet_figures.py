"""What is planned for maps and fleets that are killed, and what came of it."""

from collections import Counter
from typing import Literal, Self

from msgspec import Struct, field

from tests.proof.fleet_check import Worked
from tests.proof.map_check import Answered
from tests.proof.spark_driver import CLUSTER

What = Literal["tree", "executor", "worker", "cancel"]


class Blow(Struct, frozen=True):
    """What is killed, and when: at a step, and when this share of the rows is over."""

    what: What
    share: float = 0.0
    step: str = "running"


class Plan(Struct, frozen=True):
    """Lives of the driver, one after the other; one more, which nobody disturbs, comes to the end."""

    maps: bool
    rows: int
    lives: tuple[tuple[Blow, ...], ...]
    master: str = CLUSTER
    fault: str | None = None
    capacity: int = 20
    ms: int = 10
    """How long a handler takes."""

    @classmethod
    def of(
        cls, maps: bool, rows: int, *lives: tuple[Blow, ...], master: str = CLUSTER, fault: str | None = None
    ) -> Self:
        """A plan that takes two workers half a minute at least, so that blows can be told apart."""
        capacity = min(max(rows // 5_000, 2), 20)
        ms = max(60_000 * capacity // rows, 10)
        return cls(maps, rows, lives, master, fault, capacity, ms)


class FleetFigures(Struct):
    """What a run did and found."""

    blows: Counter[str] = field(default_factory=Counter)
    processes: int = 0
    """That were killed with the drivers."""
    leftovers: int = 0
    """Jobs that were still held a lease after the fleet's end."""
    apart: int = 0
    """By how many there are more rows than jobs in the journal, or fewer."""
    worked: Worked = field(default_factory=Worked)
    answered: Answered | None = None
    seconds: float = 0.0

    def is_exact(self) -> bool:
        """Whether everything is as it must be."""
        wrong = self.leftovers + self.apart
        return self.worked.is_right and not wrong and (self.answered is None or self.answered.is_right)

    def has_happened(self, plan: Plan) -> bool:
        """Whether everything was done that was to be, and did some harm."""
        wanted = Counter(blow.what for life in plan.lives for blow in life)
        events = self.worked.events
        harm = [self.worked.crashed, *(events[name] for name in ("stalled", "retried", "dead"))]
        if plan.fault is None:  # without hearts a lease is lost before the time is over
            harm.append(self.worked.timed_out)
        return self.blows == wanted and min(harm) > 0

    def __str__(self) -> str:
        blows = ", ".join(f"{what} {count}" for what, count in sorted(self.blows.items()))
        answered = "" if self.answered is None else f"\n    answers: {self.answered}"
        return (
            f"kills {sum(self.blows.values())} ({blows}) of {self.processes} processes, leases kept after the end"
            f" {self.leftovers}, rows and jobs apart {self.apart}, {self.seconds:.0f} s\n    {self.worked}{answered}"
        )
