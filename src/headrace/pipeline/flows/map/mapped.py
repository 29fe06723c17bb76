"""What a map has come to, and how far it is meanwhile."""

from pathlib import Path
from typing import Literal

from msgspec import Struct
from pyspark.sql import DataFrame

from headrace.model.names import Queue
from headrace.pipeline.flows.fleet.report import FleetReport

Step = Literal["reading", "enqueuing", "running", "collecting"]
STEPS: tuple[Step, ...] = ("reading", "enqueuing", "running", "collecting")


class MapProgress(Struct, frozen=True):
    """How far a map is."""

    step: Step
    rows: int = 0
    """Of the frame, once they are read."""
    open: int = 0
    """Jobs of its queue that wait or run."""
    done: int = 0
    dead: int = 0


class Mapped(Struct, frozen=True, kw_only=True):
    """What became of the rows, and the answer as a frame."""

    frame: DataFrame
    """A row for each key, with its result or its error; a further row for each that says something else under a key.

    It does not read the store again. From `folder` when there is one, else held by Spark while somebody uses it.
    """
    name: str
    queue: Queue
    rows: int
    """Of the frame that was given."""
    created: int
    """Jobs that are new."""
    known: int
    """Rows whose jobs an earlier call has made."""
    folded: int
    """Rows equal to another one."""
    outcomes: dict[str, int]
    """Rows of the answer by outcome: done, dead, cancelled, open, lost, refused."""
    folder: Path | None = None
    fleet: FleetReport | None = None
    """The report of the fleet; None if none was needed."""

    @property
    def complete(self) -> bool:
        """Whether nothing is open: calling again would change nothing."""
        return not self.outcomes.get("open")

    def sentence(self) -> str:
        """The counts for a person."""
        parts = [f"{count:,} {outcome}" for outcome, count in self.outcomes.items() if count]
        told = f"of {self.rows:,} rows {', '.join(parts) if parts else 'none has an answer'}"
        return f"{told}; {self.created:,} jobs were new, {self.known:,} known"

    def __str__(self) -> str:
        return self.sentence()
