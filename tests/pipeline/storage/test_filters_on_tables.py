"""Promise of the statistics in a table's log: no engine leaves out a file that has rows for a filter, on any column."""

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.history.table import history_table
from headrace.pipeline.storage.layout import Layout
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import DataTable, open_table
from headrace.pipeline.storage.write import write_sorted
from headrace.pipeline.tables.layouts import LAYOUTS

Row = dict[str, Any]
Filter = tuple[str, Any]
"""A column, and the value that it is to have; None for rows without one, ... for those with any."""
Engine = Callable[[DataTable, Sequence[Filter]], list[pa.Table]]
LONG = 1_000
HISTORY = history_table("unused", payloads=True).layout
EVERY_LAYOUT = {layout.name: layout for layout in (HISTORY, *LAYOUTS.values())}


def value(name: str, kind: pa.DataType, number: int) -> Any:
    """A value of a type, a greater one for a greater number."""
    if pa.types.is_string(kind):
        return f"{name}{'-' * LONG}{number}" if name in ("kind", "error_message") else f"{name}-{number}"
    if pa.types.is_date(kind):
        return date(2030, 1, 1) + timedelta(days=number)
    if pa.types.is_timestamp(kind):
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(days=number, microseconds=number)
    if pa.types.is_list(kind):
        return [value(name, kind.value_type, number)]
    if pa.types.is_struct(kind):
        return {field.name: value(field.name, field.type, number) for field in kind}
    return kind.to_pandas_dtype()(number).item()


def files_of_rows(layout: Layout) -> list[list[Row]]:
    """The rows of three files: with all values, with some, and without any but those of an order or a partition."""
    kept = {*layout.partition_by, *layout.order}

    def row(number: int, is_missing: Callable[[int], bool]) -> Row:
        return {
            field.name: None
            if field.name not in kept and is_missing(place)
            else value(field.name, field.type, number if field.name not in layout.partition_by else number // 10)
            for place, field in enumerate(layout.schema)
        }

    return [
        [row(number, lambda _: False) for number in (10, 11)],
        [row(20 + number, lambda place, number=number: place % 2 == number) for number in (0, 1)],  # type: ignore[misc]
        [row(number, lambda _: True) for number in (30, 31)],
    ]


def filters_of(layout: Layout) -> list[Filter]:
    found: list[Filter] = [(name, wanted) for name in layout.schema.names for wanted in (None, ...)]
    for field in layout.schema:
        if not pa.types.is_nested(field.type):
            numbers = (1, 2) if field.name in layout.partition_by else (10, 21)
            found += [(field.name, value(field.name, field.type, number)) for number in numbers]
    return found


def matches(row: Row, column: str, wanted: Any) -> bool:
    return row[column] is not None if wanted is ... else bool(row[column] == wanted)


def by_arrow(table: DataTable, filters: Sequence[Filter]) -> list[pa.Table]:
    rows = DeltaTable(str(table.location)).to_pyarrow_dataset()

    def term(column: str, wanted: Any) -> pc.Expression:
        field = pc.field(column)
        if wanted is None or wanted is ...:
            return field.is_null() if wanted is None else field.is_valid()
        return field == pa.scalar(wanted, table.layout.schema.field(column).type)

    return [rows.to_table(filter=term(*each)) for each in filters]


def by_polars(table: DataTable, filters: Sequence[Filter]) -> list[pa.Table]:
    rows = pl.scan_delta(str(table.location))

    def term(column: str, wanted: Any) -> pl.Expr:
        if wanted is None or wanted is ...:
            return pl.col(column).is_null() if wanted is None else pl.col(column).is_not_null()
        return pl.col(column).eq(wanted)

    return [rows.filter(term(*each)).collect().to_arrow() for each in filters]


def by_duckdb(table: DataTable, filters: Sequence[Filter]) -> list[pa.Table]:
    files, types = DeltaTable(str(table.location)).file_uris(), "hive_partitioning = true, union_by_name = true"
    days = "hive_types = {'day': DATE}" if "day" in table.layout.partition_by else "hive_types_autocast = false"
    found = []
    with closing(duckdb.connect()) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        source, arguments = f"read_parquet(?, {types}, {days})", [files]
        try:
            connection.execute("LOAD delta")
            source, arguments = "delta_scan(?)", [str(table.location)]  # type: ignore[list-item]
        except duckdb.Error:
            pass  # the extension is not in the package of DuckDB
        for column, wanted in filters:
            is_value = wanted is not None and wanted is not ...
            term = "= ?" if is_value else "IS NULL" if wanted is None else "IS NOT NULL"
            query = f'SELECT * FROM {source} WHERE "{column}" {term}'  # noqa: S608  (ours)
            rows = connection.sql(query, params=[*arguments, *([wanted] if is_value else [])])
            found.append(rows.to_arrow_table())
    return found


def by_spark(spark: SparkSession, table: DataTable, filters: Sequence[Filter]) -> list[pa.Table]:
    rows = table.read(spark)

    def found(number: int, column: str, wanted: Any) -> DataFrame:
        if wanted is None or wanted is ...:
            some = rows.where(F.col(column).isNull() if wanted is None else F.col(column).isNotNull())
        else:
            some = table.read(spark, where=[(column, "=", wanted)])
        return some.select(F.lit(number).alias("filter"), *table.layout.schema.names)

    every = reduce(DataFrame.unionByName, (found(number, *each) for number, each in enumerate(filters))).toArrow()
    return [every.filter(pc.field("filter") == number) for number in range(len(filters))]


def texts(layout: Layout, rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.select(layout.schema.names).cast(layout.schema).to_pylist()))


@pytest.fixture(params=list(EVERY_LAYOUT.values()), ids=list(EVERY_LAYOUT))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> DataTable:
    """A table with the three files of its rows."""
    layout: Layout = request.param
    made = open_table(Location.parse(tmp_path), layout, "delta")
    made.prepare()
    for number, rows in enumerate(files_of_rows(layout)):
        written = pa.Table.from_pylist(rows, schema=layout.schema)
        made.commit(list(write_sorted(iter([written]), layout, made.write_location, f"{layout.name}-{number}")))
    return made


def expected(layout: Layout) -> dict[str, list[str]]:
    """The rows of each filter, by Python."""
    every = [row for rows in files_of_rows(layout) for row in rows]
    lists = ([row for row in every if matches(row, *each)] for each in filters_of(layout))
    return by_filter(layout, [pa.Table.from_pylist(rows, schema=layout.schema) for rows in lists])


def by_filter(layout: Layout, tables: Sequence[pa.Table]) -> dict[str, list[str]]:
    return {str(each): texts(layout, rows) for each, rows in zip(filters_of(layout), tables, strict=True)}


@pytest.mark.parametrize("engine", [by_arrow, by_polars, by_duckdb])
def test_every_engine_finds_all_rows_by_any_column(table: DataTable, engine: Engine) -> None:
    found = engine(table, filters_of(table.layout))

    assert by_filter(table.layout, found) == expected(table.layout)


def test_spark_finds_all_rows_by_any_column(spark: SparkSession, table: DataTable) -> None:
    found = by_spark(spark, table, filters_of(table.layout))

    assert by_filter(table.layout, found) == expected(table.layout)


def test_long_texts_have_short_bounds_in_the_log(tmp_path: Path) -> None:
    layout = Layout(
        name="texts", schema=pa.schema([("text", pa.string()), ("longer", pa.string())]), stats=("text", "longer")
    )
    table = open_table(Location.parse(tmp_path), layout, "delta")
    table.prepare()
    last = chr(0x10FFFF)
    texts, longer = ["a" * LONG, "b" * 100 + last * 100 + "c" * LONG], ["x" * 10_000, "y" * 10_000]
    written = pa.table({"text": texts, "longer": longer}, schema=layout.schema)

    table.commit(list(write_sorted(iter([written]), layout, table.write_location, "texts")))

    now = table.version()
    assert now is not None
    [file] = now.files()
    assert file.lows == {"text": "a" * 128, "longer": ""}
    assert file.highs == {"text": "b" * 100 + last * 101, "longer": last}
    rows = DeltaTable(str(tmp_path)).to_pyarrow_dataset()
    assert rows.to_table(filter=pc.field("text") == texts[1]).num_rows == 1
    assert rows.to_table(filter=pc.field("longer") == longer[0]).num_rows == 1
