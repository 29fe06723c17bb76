"""Looks how far the schema of a file has got, without touching it."""

import sqlite3
from contextlib import closing
from pathlib import Path

from headrace.model.integrity import Schema, schema_at
from headrace.stores.sqlite.connect import check_known, errors, version_of
from headrace.stores.sqlite.sql import migration_names


def schema_of(path: str) -> Schema:
    """The schema of a file; one that is missing is not made. Refuses a file of a newer Headrace."""
    file = Path(path).absolute()
    if not file.exists():
        return schema_at(None, migration_names())
    # Not read-only: SQLite could not read what another process has not yet folded into the file.
    with errors(path), closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True)) as connection:
        version = version_of(connection)
    check_known(path, version)
    return schema_at(version, migration_names())
