"""Who is measured: every store on a server of the benchmark's own, each with the raw reference that it is beside."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.load import Raw
from benchmarks.raw_postgres import RawPostgres
from benchmarks.raw_redis import RawRedis
from benchmarks.raw_sqlite import RawSqlite
from tests.support.postgres_servers import PostgresServer
from tests.support.redis_servers import RedisServer


class Contender(NamedTuple):
    """One store under one durability profile."""

    name: str
    fresh_url: Callable[[], str]
    """Empties the place and says where it is."""
    raw: Callable[[], Raw] | None = None
    """Opens the raw reference, emptied, too."""
    redis: RedisServer | None = None
    """The server whose own figures count."""
    ping: Callable[[], Callable[[], None]] | None = None
    """Makes what asks the server for nothing: a bare round trip."""


def sqlite(folder: Path, profile: str, synchronous: str) -> Contender:
    """SQLite, a new file each time."""

    def place() -> Path:
        return Path(tempfile.mkdtemp(dir=folder))

    return Contender(
        f"sqlite {profile}",
        lambda: f"sqlite:///{place() / 'bench.db'}?profile={profile}",
        lambda: RawSqlite(place() / "raw.db", synchronous),
    )


def redis(server: RedisServer, profile: str) -> Contender:
    """Redis, emptied each time."""

    def fresh() -> str:
        server.ask("FLUSHALL")
        return f"{server.url}?profile={profile}"

    def raw() -> RawRedis:
        server.ask("FLUSHALL")
        return RawRedis(server.port)

    return Contender(f"redis {profile}", fresh, raw, server, lambda: RawRedis(server.port).ping)


def postgres(server: PostgresServer) -> Contender:
    """PostgreSQL that waits for its disk, its tables made anew each time."""

    def fresh() -> str:
        server.ask("DROP SCHEMA IF EXISTS headrace CASCADE")
        return server.url

    return Contender(
        "postgres durable",
        fresh,
        lambda: RawPostgres(server.connect()),
        None,
        lambda: RawPostgres(server.connect()).ping,
    )


@contextmanager
def contenders() -> Iterator[list[Contender]]:
    """Start the servers; they and all files are gone afterwards."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
        fast = stack.enter_context(RedisServer())
        durable = stack.enter_context(RedisServer(aof="always"))
        database = stack.enter_context(PostgresServer(fsync=True, settings={"max_wal_size": "2GB"}))
        for server in (fast, durable, database):
            server.launch()
        yield [
            Contender("memory", lambda: "memory://"),
            sqlite(folder, "fast", "NORMAL"),
            sqlite(folder, "durable", "FULL"),
            redis(fast, "fast"),
            redis(durable, "durable"),
            postgres(database),
        ]
