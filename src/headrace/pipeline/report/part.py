"""The part of the tables that a report is about: a tenant, some queues, or everything."""

from msgspec import Struct
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.source.options import ALL


class ReportPart(Struct, frozen=True):
    """A tenant and queues, as commands are given them: a name, queues with commas between them, or `*`."""

    tenant: str = ALL
    queue: str = ALL

    @property
    def text(self) -> str:
        """What it is, for people; nothing if it is everything."""
        named = [("tenant", self.tenant), ("queue", ", ".join(self._queues))]
        return ", ".join(f"{what} {name}" for what, name in named if name not in (ALL, ""))

    def of(self, frame: DataFrame) -> DataFrame:
        """The rows of a table that belong to it; of a table without queues, those of the tenant."""
        if self.tenant != ALL:
            frame = frame.where(F.col("tenant") == self.tenant)
        if self._queues and "queue" in frame.columns:
            frame = frame.where(F.col("queue").isin(*self._queues))
        return frame

    @property
    def _queues(self) -> list[str]:
        return [] if self.queue == ALL else [name.strip() for name in self.queue.split(",")]


EVERYTHING = ReportPart()
