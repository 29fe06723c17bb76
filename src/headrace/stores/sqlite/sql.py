"""The SQL of the store, read once when this module is imported, and how values go into its statements and come out."""

import sqlite3
from contextlib import closing
from functools import cache
from typing import Any

import msgspec

from headrace.stores.engine.rows import part_of
from headrace.stores.package_files import SqlFiles

_FILES = SqlFiles("headrace.stores.sqlite")

migrations = cache(_FILES.migrations)
migration_names = _FILES.migration_names
statement_names = _FILES.statement_names


@cache
def sql(name: str) -> str:
    """The statement of that name in `sql/<table>.sql`."""
    return _FILES.statement(name)


def json_array(values: list[str] | list[int]) -> str:
    """Ids or keys of rows as one argument."""
    return msgspec.json.encode(values).decode()


def read_page(cursor: sqlite3.Cursor, limit: int, bytes_max: int | None) -> tuple[list[tuple[Any, ...]], bool]:
    """Rows until `limit` or `bytes_max` of their last columns is reached, and whether there may be more. They are
    fetched one by one: SQLite reads none behind the page."""
    with closing(cursor):
        return part_of(cursor, lambda columns: len(columns[-1] or b""), limit, bytes_max)
