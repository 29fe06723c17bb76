"""The raw PostgreSQL reference: COPY, UPDATE … SKIP LOCKED … RETURNING and DELETE on one table, a transaction a batch.

The table has the indexes of the driver's jobs, one connection, prepared statements and no event loop: what a queue on
PostgreSQL could reach at most.
"""

from collections.abc import Callable, Iterator

from psycopg import Connection

_TABLE = """
DROP TABLE IF EXISTS raw;
CREATE TABLE raw (
  shard_id bigint NOT NULL, place bigint, run_at_ms bigint NOT NULL, expires_at_ms bigint, fence bigint,
  id text COLLATE "C" NOT NULL, nonce text, payload bytea NOT NULL, PRIMARY KEY (shard_id, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX raw_ready ON raw (shard_id, place) WHERE place IS NOT NULL;
CREATE INDEX raw_later ON raw (shard_id, run_at_ms, id) WHERE place IS NULL AND fence IS NULL;
CREATE INDEX raw_active ON raw (shard_id, expires_at_ms, id) WHERE fence IS NOT NULL;
"""
_COPY = "COPY raw (shard_id, place, run_at_ms, id, payload) FROM STDIN (FORMAT BINARY)"
_CLAIM = """UPDATE raw SET place = NULL, fence = 1, nonce = 'nonce', expires_at_ms = 1700000030000 WHERE ctid = ANY (
  ARRAY (SELECT ctid FROM raw WHERE shard_id = 1 AND place IS NOT NULL ORDER BY place LIMIT %s FOR UPDATE SKIP LOCKED)
) RETURNING id, payload"""
_DELETE = "DELETE FROM raw WHERE shard_id = 1 AND id = ANY (%s)"


class RawPostgres:
    """One connection that commits each statement."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._connection.execute(_TABLE)

    def ping(self) -> None:
        """One bare round trip."""
        self._connection.execute("SELECT 1", prepare=True)

    def insert(self, ids: list[list[str]], payload: bytes) -> Iterator[Callable[[], None]]:
        """One call per batch that inserts it."""
        place = 0
        for batch in ids:
            rows = [(1, place + offset, 1_700_000_000_000, id, payload) for offset, id in enumerate(batch)]
            place += len(batch)
            yield lambda rows=rows: self._copy(rows)  # type: ignore[misc]

    def _copy(self, rows: list[tuple[int, int, int, str, bytes]]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            copy.set_types(["int8", "int8", "int8", "text", "bytea"])
            for row in rows:
                copy.write_row(row)

    def claim(self, limit: int) -> list[str]:
        """Take the first rows in order."""
        found = self._connection.execute(_CLAIM, (limit,), prepare=True, binary=True).fetchall()
        return [id for id, _ in found]

    def delete(self, ids: list[str]) -> None:
        """Drop rows."""
        self._connection.execute(_DELETE, (ids,), prepare=True)

    def close(self) -> None:
        """Let go of the server."""
        self._connection.close()
