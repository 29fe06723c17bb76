"""The guide names the columns that the tables have."""

import re
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline.source.schema import JOURNAL
from headrace.pipeline.tables.attempts import attempts
from headrace.pipeline.tables.errors import errors
from headrace.pipeline.tables.stats import stats
from headrace.pipeline.tables.usage import usage

GUIDE = (Path(__file__).parents[2] / "docs/how-to/pipelines.md").read_text("utf-8")
TABLES = {
    "attempts": attempts,
    "errors": errors,
    "stats": lambda events: stats(events, 60_000),
    "usage": usage,
}
ADDED = {"stats": {"backlog"}}
"""What is in the files and not in the function's frame: it is summed up over windows."""


def told(name: str) -> set[str]:
    """The columns that the guide tells of a table."""
    section = re.search(rf"^### {name}\n(.*?)^##", GUIDE, re.MULTILINE | re.DOTALL)
    assert section is not None
    cells = [line.split("|")[1] for line in section[1].splitlines() if line.startswith("| `")]
    return set(re.findall(r"`(\w+)`", " ".join(cells)))


@pytest.mark.parametrize("name", TABLES)
def test_the_guide_tells_of_every_column_of_a_table_and_of_no_other(name: str, spark: SparkSession) -> None:
    events: DataFrame = spark.createDataFrame([], JOURNAL.spark)

    columns = set(TABLES[name](events).columns) | ADDED.get(name, set())

    assert told(name) == columns
