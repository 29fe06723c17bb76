"""Reports the outcomes of the rows of an ingest, and reads its refused rows."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from headrace.pipeline.source.sink.rejects import SCHEMA
from headrace.pipeline.source.sink.result import Written
from headrace.pipeline.storage.location import Location

ACCEPTED = ("created", "updated", "blocked", "duplicate", "folded")
"""The outcomes of rows that were not refused."""


class IngestReport(Struct, frozen=True, kw_only=True):
    """The outcomes of the rows. Every row is counted once: the counts and those of `refused` add up to `rows`.

    A dry run counts the rows that would be `jobs`, `folded` into another row, or refused; the refusals of the store
    itself are only found by a write.
    """

    name: str
    run: str = ""
    """The id of the write in its feed of reports."""
    rows: int = 0
    created: int = 0
    """New jobs."""
    updated: int = 0
    """Waiting jobs with the row's id that were changed."""
    blocked: int = 0
    """Jobs that wait behind an active job with their id."""
    duplicate: int = 0
    """Rows that an earlier run has written."""
    folded: int = 0
    """Rows with the key of another row of this run: both are one job."""
    refused: dict[str, int] = {}
    """Refused rows by reason."""
    examples: dict[str, str] = {}
    """A sentence for each reason."""
    refused_folder: str | None = None
    """Where the refused rows are kept; `read_refused` reads them."""
    exact: bool = True
    """False beyond 20 million rows: then `created` is a lower bound and `folded` an upper bound."""
    dry: bool = False
    """Whether nothing was written."""
    jobs: int = 0
    """Dry run: jobs that would be sent."""
    existing: int = 0
    """Dry run: how many of these jobs the store already has, in any state."""
    samples: list[str] = []
    """Dry run: some of these jobs, as JSON."""
    started_at_ms: int = 0
    ended_at_ms: int = 0

    def __str__(self) -> str:
        return self.sentence()

    def counts(self) -> dict[str, int]:
        """The rows that were not refused, by outcome."""
        if self.dry:
            return {"jobs": self.jobs, "folded": self.folded}
        return {name: getattr(self, name) for name in ACCEPTED}

    def sentence(self) -> str:
        """The counts in one sentence, with an example of a refused row."""
        verb = "would be" if self.dry else "were"
        parts = [f"{count:,} {name}" for name, count in self.counts().items() if count]
        text = f"of {self.rows:,} rows {', '.join(parts)}" if parts else f"of {self.rows:,} rows none is a job"
        text += f" ({self.existing:,} of them in the store)" if self.existing else ""
        text += "" if self.exact else " (at least, folded at most)"
        if not self.refused:
            return text
        refused = ", ".join(f"{reason} {count:,}" for reason, count in sorted(self.refused.items()))
        example = self.examples[max(self.refused, key=lambda reason: self.refused[reason])]
        return f"{text}, {sum(self.refused.values()):,} {verb} refused ({refused}); for example: {example}"


def sum_writes(name: str, writes: Iterable[Written], refused_folder: str | None) -> IngestReport:
    """The report of an ingest from its writes: one of a batch, many of a stream."""
    counts, refused = Counter[str](), Counter[str]()
    examples: dict[str, str] = {}
    by_time = sorted(writes, key=lambda write: write.started_at_ms)
    for write in by_time:
        counts += Counter({name: getattr(write, name) for name in ("rows", *ACCEPTED)})
        refused += Counter(write.refused)
        examples = write.examples | examples
    totals: dict[str, Any] = dict(counts)
    return IngestReport(
        name=name,
        run=by_time[0].run if len(by_time) == 1 else "",
        **totals,
        refused=dict(refused),
        examples=examples,
        refused_folder=refused_folder if refused else None,
        exact=all(write.exact for write in by_time),
        started_at_ms=by_time[0].started_at_ms if by_time else 0,
        ended_at_ms=by_time[-1].ended_at_ms if by_time else 0,
    )


def read_refused(spark: SparkSession, folder: str | Path) -> DataFrame:
    """The rows that writes into `folder` have refused: the `reason`, a `sentence` on it, the columns of a job, the
    payload as text, and the `run` of the write.

    The frame is empty when no row was refused. To write corrected rows again, drop `reason`, `sentence` and `run`.
    """
    path = Path(folder).expanduser().absolute()
    columns = from_arrow_schema(SCHEMA)
    schema = StructType([*columns.fields, StructField("run", StringType())])
    if not any(path.glob("run=*/*.parquet")):
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(Location.parse(path).spark_url)
