"""Names of columns: each is written as it is in DuckDB and in Spark, where some words must be quoted."""

import duckdb
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, DataType, StructType

from headrace.pipeline.flows.map.keys import RESULT_COLUMNS
from headrace.pipeline.flows.map.results import ROW_COLUMNS
from headrace.pipeline.source.schema import JOURNAL_PAYLOADS, SPARK_SCHEMA, TABLES
from headrace.pipeline.source.sink.rejects import SCHEMA
from headrace.pipeline.tables.attempts import attempts
from headrace.pipeline.tables.errors import errors
from headrace.pipeline.tables.jobs import jobs
from headrace.pipeline.tables.layouts import LAYOUTS, STATS_COLUMNS
from headrace.pipeline.tables.usage import usage
from tests.pipeline.by_hand import frame_of

ANSI = "spark.sql.ansi.enforceReservedKeywords"


@pytest.fixture(scope="module")
def names(spark: SparkSession) -> list[str]:
    """Every column of what is read from stores and of what is written to files, and the fields within them."""
    events = frame_of(spark)
    found = {*JOURNAL_PAYLOADS.names, *STATS_COLUMNS.names, *SCHEMA.names, *RESULT_COLUMNS, *ROW_COLUMNS, "day", "run"}
    found.update(*(table.names for table in TABLES.values()), *(each.schema.names for each in LAYOUTS.values()))
    for table in (SPARK_SCHEMA, *(make(events).schema for make in (jobs, attempts, errors, usage))):
        found |= names_in(table)
    return sorted(found)


def names_in(kind: DataType) -> set[str]:
    """The names of a type's fields, at any depth."""
    match kind:
        case StructType():
            return set(kind.names).union(*(names_in(field.dataType) for field in kind.fields))
        case ArrayType():
            return names_in(kind.elementType)
        case _:
            return set()


def test_every_column_is_written_without_quotes_in_duckdb(names: list[str]) -> None:
    keywords = duckdb.execute("SELECT keyword_name, keyword_category FROM duckdb_keywords()").fetchall()
    no_columns = {word for word, category in keywords if category in ("reserved", "type_function")}

    for name in names:
        query = f'SELECT {name}, t.{name} FROM (SELECT 1 AS "{name}") t WHERE {name} = 1 ORDER BY {name}'  # noqa: S608 - ours
        assert duckdb.execute(query).fetchall() == [(1, 1)]

    assert len(names) > 80
    assert not no_columns.intersection(names)


def test_every_column_is_written_without_quotes_in_spark_also_where_it_is_strict(
    spark: SparkSession, names: list[str]
) -> None:
    spark.conf.set(ANSI, True)
    try:
        words = {
            row["keyword"].lower() for row in spark.sql("SELECT keyword FROM sql_keywords() WHERE reserved").collect()
        }
        columns = ", ".join(f"t.{name}, {name} + 1 AS {name}" for name in names)
        quoted_names = ", ".join(f"`{name}`" for name in names)
        ones = ", ".join("1" * len(names))
        rows = spark.sql(f"SELECT {columns} FROM VALUES ({ones}) AS t({quoted_names})").collect()  # noqa: S608 - our own names
    finally:
        spark.conf.unset(ANSI)

    assert "select" in words
    assert not words.intersection(names)
    assert rows == [(1, 2) * len(names)]
