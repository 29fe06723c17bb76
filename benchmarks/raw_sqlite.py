"""The raw SQLite reference: plain inserts, updates and deletes of rows of the same size in the same transactions.

One table with a unique id and an index for the order of claims, and nothing else: no checks, journal, finished jobs or
answers. What a queue on SQLite could reach at most.
"""

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

_TABLE = """CREATE TABLE raw (
  raw_id INTEGER PRIMARY KEY, id TEXT NOT NULL, place INTEGER, expires_at_ms INTEGER, fence INTEGER, worker TEXT,
  run_at_ms INTEGER NOT NULL, kind TEXT NOT NULL, payload BLOB NOT NULL)"""
_CLAIM = """UPDATE raw SET place = NULL, expires_at_ms = ?, fence = 1, worker = 'worker-1' WHERE raw_id IN (
  SELECT raw_id FROM raw WHERE place IS NOT NULL ORDER BY place LIMIT ?) RETURNING id, payload"""


class RawSqlite:
    """A table of rows, written in transactions of one batch each."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(f"PRAGMA synchronous = {synchronous}")
        self._connection.execute(_TABLE)
        self._connection.execute("CREATE UNIQUE INDEX raw_by_id ON raw (id)")
        self._connection.execute("CREATE INDEX raw_place ON raw (place) WHERE place IS NOT NULL")

    def insert(self, ids: list[list[str]], payload: bytes) -> Iterator[Callable[[], None]]:
        """One call per batch that inserts it."""
        place = 0
        for batch in ids:
            rows = [(id, place + offset, 1_700_000_000_000, "send", payload) for offset, id in enumerate(batch)]
            place += len(batch)
            yield lambda rows=rows: self._many(  # type: ignore[misc]
                "INSERT INTO raw (id, place, run_at_ms, kind, payload) VALUES (?, ?, ?, ?, ?)", rows
            )

    def claim(self, limit: int) -> list[str]:
        """Take the first rows in order."""
        self._connection.execute("BEGIN IMMEDIATE")
        found = self._connection.execute(_CLAIM, (1_700_000_030_000, limit)).fetchall()
        self._connection.execute("COMMIT")
        return [id for id, _ in found]

    def delete(self, ids: list[str]) -> None:
        """Drop rows."""
        self._many("DELETE FROM raw WHERE id = ?", [(id,) for id in ids])

    def _many(self, statement: str, rows: list[tuple[object, ...]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(statement, rows)
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
