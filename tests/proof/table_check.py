"""What tables that were brought forward must be: those that all events at once give, row by row."""

from collections.abc import Sequence

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline.data_dir import GENERATIONS, DataDir
from headrace.pipeline.stats.run import read_stats
from headrace.pipeline.tables.write import table_of

COMPARED = ("jobs", "attempts", GENERATIONS, "errors", "usage", "stats")
"""In the order in which a run commits them."""


class Difference(Struct, frozen=True):
    """A table beside the one that was made anew."""

    rows: int
    missing: int
    """Rows that the other has."""
    surplus: int
    """Rows that the other does not have, or not as often."""

    @property
    def is_equal(self) -> bool:
        """Whether it has rows, and those of the other."""
        return self.rows > 0 == self.missing + self.surplus


def compare_tables(
    spark: SparkSession, data_dir: DataDir, anew: DataDir, names: Sequence[str] = COMPARED
) -> dict[str, Difference]:
    """Each table beside its counterpart that was made anew, all columns of all rows."""
    found = {}
    for name in names:
        one, other = _rows(spark, data_dir, name), _rows(spark, anew, name)
        found[name] = Difference(one.count(), other.exceptAll(one).count(), one.exceptAll(other).count())
    return found


def _rows(spark: SparkSession, data_dir: DataDir, name: str) -> DataFrame:
    if name == "stats":
        return read_stats(spark, data_dir.location(name))
    return table_of(data_dir, name).read(spark)
