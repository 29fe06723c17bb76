"""The named statements of the store, and the transaction that runs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg

from headrace.stores.package_files import Edit, SqlFiles
from headrace.stores.postgres.connection import Connection, roll_back, translate_errors

Cursor = psycopg.Cursor[tuple[Any, ...]]
WRITING = b"BEGIN"
READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ"

_FILES = SqlFiles("headrace.stores.postgres")
migrations = _FILES.migrations
migration_names = _FILES.migration_names


@cache
def sql(name: str) -> bytes:
    """The named statement."""
    return _FILES.statement(name).encode()


def edit(change: Edit) -> None:
    """Pass every statement through `change` from now on; tests plant faults with it."""
    _FILES.edit(change)
    sql.cache_clear()


class LazyTransaction:
    """Runs statements by name inside one transaction."""

    def __init__(self, connection: Connection, begin: bytes) -> None:
        self.connection = connection
        self.writes = begin == WRITING
        """Whether rows are locked when they are read, because they will be written."""
        self._begin = begin
        self._begun = False

    def run(self, name: str, *args: object) -> Cursor:
        """Run the named statement."""
        if self._begun:
            return self.connection.execute(sql(name), args, binary=True)
        with self.pipeline():
            return self.connection.execute(sql(name), args, binary=True)

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        """Send the statements of the block in one round trip; their rows can be read after it."""
        with self.connection.pipeline():
            if not self._begun:
                self._begun = True
                self.connection.execute(self._begin)
            yield

    def commit(self, address: str) -> None:
        """Commit, if anything was run."""
        if self._begun:
            self._begun = False
            with translate_errors(address, sent=True):
                self.connection.execute("COMMIT", prepare=False)

    @contextmanager
    def commit_pipeline(self, address: str) -> Iterator[None]:
        """Send the statements of the block and the commit in one round trip; where the connection is lost, they may be
        committed all the same."""
        with translate_errors(address, sent=True), self.pipeline():
            yield
            self.connection.execute("COMMIT", prepare=False)
        self._begun = False

    def roll_back(self) -> None:
        """Roll back all statements."""
        if self._begun:
            self._begun = False
            roll_back(self.connection)
