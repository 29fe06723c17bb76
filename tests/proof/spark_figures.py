"""What is planned for a history that is killed, and what came of it."""

from collections import Counter
from itertools import cycle, islice

from msgspec import Struct, field

from headrace.pipeline.storage.table import Form
from tests.proof.spark_check import Found
from tests.proof.spark_executors import EXECUTOR_STEPS
from tests.proof.spark_steps import PARQUET_STEPS


class Death(Struct, frozen=True):
    """How one life of the driver ends."""

    step: str
    executors: int = 0
    """So many single executors lose a task before, at the steps in turn, and the life must go on each time."""
    compacts: bool = False
    """Somebody compacts all the while, and is killed at the same time."""


class Plan(Struct, frozen=True):
    """Which lives there are, one after the other."""

    deaths: tuple[Death, ...]
    form: Form = "delta"
    is_remote: bool = False
    """On object storage."""
    fault: str | None = None


def executor_steps(death: Death) -> Counter[str]:
    """At which steps a life loses executors."""
    return Counter(islice(cycle(EXECUTOR_STEPS), death.executors))


class KillFigures(Struct):
    """What a run did and found."""

    kills: Counter[str] = field(default_factory=Counter)
    """Of whole trees, by step."""
    processes: int = 0
    """That were killed with them."""
    executors: int = 0
    """That were killed one by one, while they had a task."""
    lost: Counter[str] = field(default_factory=Counter)
    """Of these, how often Spark says that it has lost a task with it, by step."""
    again: int = 0
    """Batches that were begun a second time."""
    merges: int = 0
    """By how many files compaction beside a running writer has made them fewer."""
    compactors: int = 0
    """Compactions that were killed in the midst of a folder."""
    looks: int = 0
    """At the files, while all this went on."""
    odd_looks: int = 0
    """That saw an event twice, or fewer than the state had said."""
    events: int = 0
    """In the journals at the end."""
    spark: Found = field(default_factory=Found)
    duckdb: Found = field(default_factory=Found)
    wrong: int = 0
    """Rows that differ from the store's own events, or lie under a wrong day."""
    behind: int = 0
    """Events that the consumer is not said to have."""
    seconds: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether the history is the journal."""
        are_equal = self.spark.rows == self.duckdb.rows == self.events
        errors = self.odd_looks + self.wrong + self.behind
        return are_equal and errors == 0 and self.spark.is_right and self.duckdb.is_right

    def has_happened(self, plan: Plan) -> bool:
        """Whether everything was done that was to be, and did some harm."""
        wanted = Counter(death.step for death in plan.deaths)
        return (
            self.kills == wanted
            and self.lost == sum((executor_steps(death) for death in plan.deaths), Counter[str]())
            and (self.merges > 0 or not any(death.compacts for death in plan.deaths))
            and (self.compactors > 0 or sum(death.compacts for death in plan.deaths) < 5)
            and min(self.again, self.looks, self.processes) > 0
        )


def sentence(figures: KillFigures) -> str:
    """The figures in a few lines."""
    kills, lost = (
        ", ".join(f"{step} {counts[step]}" for step in PARQUET_STEPS if counts[step])
        for counts in (figures.kills, figures.lost)
    )
    readers = "; ".join(
        f"{name}: rows {found.rows:,} distinct {found.distinct:,} missing {found.missing} duplicate {found.duplicate}"
        f" unknown {found.unknown}"
        for name, found in (("Spark", figures.spark), ("DuckDB", figures.duckdb))
    )
    return (
        f"kills {sum(figures.kills.values())} ({kills}) of {figures.processes} processes, executors"
        f" {figures.executors} (tasks lost: {lost or 'none'}), batches run again {figures.again},"
        f" files merged {figures.merges}, compactions killed half-way {figures.compactors}, looks {figures.looks}"
        f" (odd {figures.odd_looks})\n"
        f"    journal {figures.events:,}; {readers}; wrong {figures.wrong}, consumer behind {figures.behind},"
        f" {figures.seconds:.0f} s"
    )
