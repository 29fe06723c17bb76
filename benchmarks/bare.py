"""The bare enqueue-and-wake: a process that sleeps until something is put where it looks, with nothing around it.

    python -m benchmarks.bare redis PORT | postgres CONNINFO | sqlite FILE

says on its standard output when it was woken, on the machine's monotonic clock. `waker` is the other side.
"""

import select
import sqlite3
import sys
import time
from collections.abc import Callable

import psycopg
import redis

POLL_SECONDS = 0.005
"""SQLite has no wake-up; this is how often a look costs next to nothing."""


def sleeper_redis(port: str) -> None:
    """BLPOP."""
    client = redis.Redis(port=int(port))
    print("ready", flush=True)
    while client.blpop(["bare"]):
        print(time.monotonic_ns(), flush=True)


def sleeper_postgres(conninfo: str) -> None:
    """LISTEN, and the row is taken."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS bare (id bigserial PRIMARY KEY, body bytea)")
        connection.execute("LISTEN bare")
        print("ready", flush=True)
        while True:
            select.select([connection.fileno()], [], [])
            connection.pgconn.consume_input()
            while connection.pgconn.notifies() is not None:
                connection.execute("DELETE FROM bare")
                print(time.monotonic_ns(), flush=True)


def sleeper_sqlite(path: str) -> None:
    """Looks whether the file has changed, and takes the row."""
    with sqlite3.connect(path, isolation_level=None, timeout=30) as connection:
        connection.execute("PRAGMA journal_mode = wal")
        connection.execute("PRAGMA synchronous = normal")
        connection.execute("CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, body BLOB)")
        print("ready", flush=True)
        seen = connection.execute("PRAGMA data_version").fetchone()
        while True:
            time.sleep(POLL_SECONDS)
            found = connection.execute("PRAGMA data_version").fetchone()
            if found != seen:
                seen = found
                connection.execute("DELETE FROM bare")
                print(time.monotonic_ns(), flush=True)


def waker(kind: str, where: str) -> Callable[[bytes], object]:
    """Puts something where the sleeper looks."""
    if kind == "redis":
        client = redis.Redis(port=int(where))
        return lambda body: client.rpush("bare", body)
    if kind == "postgres":
        connection = psycopg.connect(where, autocommit=True)
        text = "WITH put AS (INSERT INTO bare (body) VALUES (%s) RETURNING id) SELECT pg_notify('bare', '') FROM put"
        return lambda body: connection.execute(text, (body,), prepare=True)
    file = sqlite3.connect(where, isolation_level=None, timeout=30)
    file.execute("PRAGMA synchronous = normal")
    return lambda body: file.execute("INSERT INTO bare (body) VALUES (?)", (body,))


if __name__ == "__main__":
    {"redis": sleeper_redis, "postgres": sleeper_postgres, "sqlite": sleeper_sqlite}[sys.argv[1]](sys.argv[2])
