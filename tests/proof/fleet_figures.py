"""Plans of maps and fleets under kills, and their figures."""

from collections import Counter
from typing import Literal, Self

from msgspec import Struct, field

from tests.proof.fleet_check import WorkCheck
from tests.proof.map_check import ResultCheck
from tests.proof.spark_driver import CLUSTER

KillTarget = Literal["tree", "executor", "worker", "cancel"]


class Kill(Struct, frozen=True):
    """A target, and when it is killed: in a step, once this share of the rows is finished."""

    target: KillTarget
    share: float = 0.0
    step: str = "running"


class Plan(Struct, frozen=True):
    """The lives of a driver, each with its kills; one more life without kills runs to the end."""

    maps: bool
    rows: int
    lives: tuple[tuple[Kill, ...], ...]
    master: str = CLUSTER
    fault: str | None = None
    capacity: int = 20
    ms: int = 10
    """The duration of a handler."""

    @classmethod
    def of(
        cls, maps: bool, rows: int, *lives: tuple[Kill, ...], master: str = CLUSTER, fault: str | None = None
    ) -> Self:
        """A plan that takes two workers at least half a minute, so that kills do not coincide."""
        capacity = min(max(rows // 5_000, 2), 20)
        ms = max(60_000 * capacity // rows, 10)
        return cls(maps, rows, lives, master, fault, capacity, ms)


class FleetFigures(Struct):
    """The figures of a run."""

    kills: Counter[str] = field(default_factory=Counter)
    processes: int = 0
    """Processes killed with the drivers."""
    leftovers: int = 0
    """Jobs with a lease one lease after the fleet's end."""
    apart: int = 0
    """The difference between rows and jobs in the journal."""
    work: WorkCheck = field(default_factory=WorkCheck)
    results: ResultCheck | None = None
    seconds: float = 0.0

    def is_exact(self) -> bool:
        """Whether no check found an error."""
        wrong = self.leftovers + self.apart
        return self.work.is_right and not wrong and (self.results is None or self.results.is_right)

    def has_happened(self, plan: Plan) -> bool:
        """Whether all kills happened and did some harm."""
        wanted = Counter(kill.target for life in plan.lives for kill in life)
        events = self.work.events
        harm = [self.work.crashed, *(events[name] for name in ("stalled", "retried", "dead"))]
        if plan.fault is None:  # without heartbeats a lease expires before the time-out
            harm.append(self.work.timed_out)
        return self.kills == wanted and min(harm) > 0

    def __str__(self) -> str:
        kills = ", ".join(f"{what} {count}" for what, count in sorted(self.kills.items()))
        results = "" if self.results is None else f"\n    answers: {self.results}"
        return (
            f"kills {sum(self.kills.values())} ({kills}) of {self.processes} processes, leases kept after the end"
            f" {self.leftovers}, rows and jobs apart {self.apart}, {self.seconds:.0f} s\n    {self.work}{results}"
        )
