"""Empties the servers that tests share, and counts their rows and keys: only here tests look inside them."""

import re
from collections import Counter
from collections.abc import Collection
from functools import cache
from typing import Any

import psycopg
import redis

from headrace.stores.redis.journal import lines_of
from tests.support.postgres_servers import PostgresServer
from tests.support.redis_servers import RedisServer

SCHEMA = "headrace"
TRUNCATE_EVERY = 100
"""Deleting few rows is faster than truncating, until dead tuples pile up."""
SIZES = {b"hash": "HLEN", b"zset": "ZCARD", b"list": "LLEN", b"set": "SCARD", b"stream": "XLEN"}
KINDS = {"m": "shard", "names": "queue", "queues": "queue", "tenants": "queue", "feed": "feed"}
"""What describes a queue or a feed and not what it holds, by the last part of its key."""
FEED_KEY = re.compile(r"hr:\{[^{}/]+\}:f:[^:]+:([miol])")
FEED_PARTS = {"m": "feed", "i": "feed_items", "o": "feed_order", "l": "feed_changes"}
"""The meaning of the last part of a feed's key; a shard uses the same letters for other things."""


@cache
def admin_of(server: RedisServer) -> "redis.Redis":
    """A connection that stays open: tests empty a server thousands of times."""
    return server.admin()


def flush(servers: list[RedisServer]) -> None:
    """Empty Redis servers; their functions stay."""
    for server in servers:
        admin_of(server).flushall()


def rewrite_streams(servers: list[RedisServer], old: bytes, new: bytes) -> None:
    """Put `new` where the journals of Redis servers hold `old`; a stream cannot be changed, so it is written anew, with
    all lines as they are."""
    for admin in map(admin_of, servers):
        for key in admin.keys("hr:*:j"):
            entries: Any = admin.xrange(key)
            admin.delete(key)
            for id, packed in entries:
                fields = {b"h": packed[b"h"], b"l": lines_of(packed)}
                admin.xadd(key, {name: value.replace(old, new) for name, value in fields.items()}, id=id)


def count_keys(servers: list[RedisServer], lingering: Collection[str] = ()) -> dict[str, int]:
    """The members of the keys of Redis servers, by the last part of their names, and their subscriptions, except the
    `lingering` channels that a store has left and still receives for a while."""
    found: Counter[str] = Counter()
    for server in servers:
        channels = {channel.decode() for channel in server.ask("PUBSUB", "SHARDCHANNELS")}
        found["subscriptions"] += len(channels - {*lingering})
        found["subscriptions"] += len(server.ask("PUBSUB", "CHANNELS"))
        for key in admin_of(server).scan_iter(count=1_000):
            of_feed = FEED_KEY.fullmatch(key.decode())
            last = FEED_PARTS[of_feed[1]] if of_feed else key.decode().rpartition(":")[2]
            if last in KINDS:
                found[KINDS[last]] += 1
            else:
                found[last] += int(server.ask(SIZES[server.ask("TYPE", key)], key))
    return dict(found)


class PostgresCleaner:
    """Empties the tables of one PostgreSQL server."""

    def __init__(self, server: PostgresServer) -> None:
        self._connection = server.connect()
        self._openings = 0

    def tables(self) -> list[str]:
        """The tables that hold what stores keep: not those that describe the schema itself, nor partitions."""
        found = self._connection.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s"
            " AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname NOT IN ('store', 'crash_mark')"
            " ORDER BY 1",
            [SCHEMA],
        ).fetchall()
        return [name for (name,) in found]

    def empty(self) -> None:
        """Empty the tables and let the sequences start again."""
        self._openings += 1
        tables = self.tables()
        if not tables:
            return
        qualified = [f'"{SCHEMA}"."{table}"' for table in tables]
        if self._openings % TRUNCATE_EVERY == 0:
            self._run(f"TRUNCATE {', '.join(qualified)}")
        else:
            self._run("; ".join(f"DELETE FROM {table}" for table in qualified))  # noqa: S608 - our own names
        self._connection.execute(
            "SELECT setval(c.oid, 1, false) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relkind = 'S'",
            [SCHEMA],
        )

    def draw_from(self, number: int) -> None:
        """Let numbers, fences and dead letters continue after a number."""
        for sequence in ("next_number", "next_fence", "next_dead_letter"):
            self._connection.execute("SELECT setval(%s::regclass, %s)", [f"{SCHEMA}.{sequence}", number])

    def count(self) -> dict[str, int]:
        """How many rows each table has."""
        found: dict[str, int] = {}
        for table in self.tables():
            [(found[table],)] = self._run(f'SELECT count(*) FROM "{SCHEMA}"."{table}"').fetchall()  # noqa: S608 - our own names
        return found

    def _run(self, statement: str) -> "psycopg.Cursor[tuple[Any, ...]]":
        return self._connection.execute(statement.encode())


@cache
def cleaner_of(server: PostgresServer) -> PostgresCleaner:
    """The cleaner of this server, whose connection stays open."""
    return PostgresCleaner(server)
