"""Opens the store of a read or a write, on the driver or in a task that may run on another machine."""

import asyncio
import platform
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.model.errors import BadConfig
from headrace.stores.contract.store import Store
from headrace.stores.open import POSTGRES, REDIS, open_store, split, sqlite_path, unknown_scheme

if TYPE_CHECKING:  # commands check URLs before Spark is loaded
    from pyspark.sql import SparkSession

Answer = TypeVar("Answer")


class _Runner(asyncio.Runner):  # type: ignore[misc]  # final in the stubs alone
    """A runner that leaves signals alone.

    Python's own handles Ctrl-C around each call, and to take that handler off again it writes out (`repr`) the answer
    of the call, twice: of a page of a thousand jobs that costs more than to read it.
    """

    def run(self, coro: Coroutine[Any, Any, Answer], *, context: Context | None = None) -> Answer:
        loop = self.get_loop()
        return loop.run_until_complete(loop.create_task(coro, context=context))


@contextmanager
def connect(url: str) -> Iterator[tuple[asyncio.Runner, Store]]:
    """The store at `url` and the loop that it belongs to, until the block ends.

    Opened by whoever uses it: a connection that was open before a fork is not safe to use after it.
    """
    check_url(url)
    with _Runner() as runner:
        store = runner.run(open_store(url))
        try:
            yield runner, store
        finally:
            runner.run(store.close())


def check_url(url: str) -> str:
    """The URL again, if Spark's processes can reach the store behind it. Never shown: it may hold a password."""
    if not url:
        raise BadConfig(
            "format headrace needs option url; give the store's, for example sqlite:////var/lib/jobs.db or"
            " redis://host:6379/0"
        )
    parts, options = split(url)
    if parts.scheme == "memory":
        raise BadConfig(
            "a memory:// store lives inside one process, where Spark's own processes cannot see it; use sqlite:///path"
        )
    if parts.scheme == "sqlite":
        check_file(sqlite_path(parts, options))
    elif parts.scheme not in (*POSTGRES, *REDIS):
        raise unknown_scheme(parts)
    return url


def check_file(path: str) -> None:
    """Refuse a store that is not there: opening it would make an empty one, and a misspelt path would read as such."""
    absolute = Path(path).absolute()
    if not absolute.is_file():
        raise BadConfig(f"there is no store at {absolute}; check the path (sqlite:///relative or sqlite:////absolute)")


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@cache
def this_host() -> str:
    """The name of this machine and, where there is one, the number of its start: two machines may share a name."""
    boot = _BOOT_ID.read_text().strip() if _BOOT_ID.is_file() else ""
    return f"{platform.node()} {boot}".strip()


def check_host(url: str, planned_on: str) -> None:
    """Refuse a store that is a file in a task that runs on another machine than the one that planned it."""
    parts, options = split(url)
    if parts.scheme != "sqlite" or planned_on == this_host():
        return
    raise BadConfig(
        f"the store {sqlite_path(parts, options)} is a file on machine {_name(planned_on)}, and this task runs on"
        f" {_name(this_host())}; use a local master, or a store that is a server (redis://, postgres://)"
    )


def _name(machine: str) -> str:
    return machine.partition(" ")[0]


def check_master(url: str, spark: "SparkSession") -> None:
    """Refuse, before anything is planned, a file whose reader would run on other machines."""
    master = spark.conf.get("spark.master") or ""
    if url.startswith("sqlite:") and not master.startswith("local"):
        raise BadConfig(
            f"a SQLite store can be read by a local Spark only, and this one runs on {master}; use local[*]"
        )
