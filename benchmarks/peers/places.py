"""Starts the servers that the systems share, and reads what the servers themselves say."""

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.costs import cpu_s
from tests.support.postgres_servers import USER, PostgresServer
from tests.support.redis_servers import RedisServer

DATABASE = "bench"


class Places:
    """One Redis without persistence, one PostgreSQL that waits for its disk, and a folder for files of SQLite."""

    def __init__(self, redis: RedisServer, postgres: PostgresServer, folder: Path) -> None:
        self.redis = redis
        self._postgres = postgres
        self._folder = folder

    def fresh_url(self, store: str) -> str:
        """Empties the place and says where it is."""
        if store == "redis":
            self.redis.ask("FLUSHALL")
            return f"{self.redis.url}/0"
        if store == "postgres":
            self._postgres.ask(f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")
            self._postgres.ask(f"CREATE DATABASE {DATABASE}")
            return f"postgresql://{USER}@127.0.0.1:{self._postgres.port}/{DATABASE}"
        self._folder = Path(tempfile.mkdtemp(dir=self._folder.parent))
        return f"sqlite:///{self._folder / 'bench.db'}"

    def cpu_s(self, store: str) -> float | None:
        """How long the server has computed; None where there is none."""
        if store == "redis":
            return cpu_s(self.redis)
        return family_cpu_s(self._postgres.pid) if store == "postgres" else None

    def bytes(self, store: str) -> int:
        """How much the server holds: memory of Redis, files of the others."""
        if store == "redis":
            with self.redis.admin() as client:
                memory: dict[str, int] = client.info("memory")
            return memory["used_memory"]
        if store == "postgres":
            [(size,)] = self._postgres.ask(f"SELECT pg_database_size('{DATABASE}')")
            return int(size)
        return sum(file.stat().st_size for file in self._folder.iterdir())

    def server_versions(self) -> dict[str, str]:
        """The versions of Redis and PostgreSQL."""
        with self.redis.admin() as client:
            redis = str(client.info("server")["redis_version"])
        [(postgres,)] = self._postgres.ask("SHOW server_version")
        return {"Redis": redis, "PostgreSQL": str(postgres).split()[0]}


def family_cpu_s(pid: int) -> float:
    """How long a process and its children have computed, those included that have ended."""
    ticks = 0
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for each in [str(pid), *children]:
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue  # it ended, and its parent has counted it
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def busy_share(seconds: float = 3.0) -> float:
    """How much of its time the machine computes while the benchmark does nothing; a quiet one next to none."""

    def ticks() -> tuple[int, int]:
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
        return sum(fields), fields[3] + fields[4]  # all, and idle or waiting for a disk

    all_before, idle_before = ticks()
    time.sleep(seconds)
    all_after, idle_after = ticks()
    return round(1 - (idle_after - idle_before) / max(all_after - all_before, 1), 3)


def machine() -> dict[str, object]:
    """What the figures were taken on, without its name."""
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return {"cores": os.cpu_count(), "processor": model[1].strip() if model else "unknown"}


@contextmanager
def places() -> Iterator[Places]:
    """Start the servers; they and all files are gone afterwards."""
    with ExitStack() as stack:
        redis = stack.enter_context(RedisServer())
        postgres = stack.enter_context(PostgresServer(fsync=True, settings={"max_wal_size": "2GB"}))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
        redis.launch()
        postgres.launch()
        first = folder / "first"
        first.mkdir()
        yield Places(redis, postgres, first)
