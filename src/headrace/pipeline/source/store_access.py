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

    Python's own runner handles Ctrl-C around each call and calls `repr` on the answer twice to remove its handler: for
    a page of a thousand jobs that costs more than the read."""

    def run(self, coro: Coroutine[Any, Any, Answer], *, context: Context | None = None) -> Answer:
        loop = self.get_loop()
        return loop.run_until_complete(loop.create_task(coro, context=context))


@contextmanager
def connect(url: str) -> Iterator[tuple[asyncio.Runner, Store]]:
    """Open the store at `url` with an event loop, for this block.

    Each process opens its own: a connection must not be used across a fork.
    """
    check_url(url)
    with _Runner() as runner:
        store = runner.run(open_store(url))
        try:
            yield runner, store
        finally:
            runner.run(store.close())


def check_url(url: str) -> str:
    """The URL again, if Spark's processes can reach its store. Errors do not show it, since it may hold a password."""
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
    """Refuse a missing file: opening it would create an empty store, which a misspelt path would read."""
    absolute = Path(path).absolute()
    if not absolute.is_file():
        raise BadConfig(f"there is no store at {absolute}; check the path (sqlite:///relative or sqlite:////absolute)")


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@cache
def this_host() -> str:
    """The name of this machine with its boot id, if any, since two machines may share a name."""
    boot = _BOOT_ID.read_text().strip() if _BOOT_ID.is_file() else ""
    return f"{platform.node()} {boot}".strip()


def check_host(url: str, planned_on: str) -> None:
    """Refuse a task on a file store that runs on another machine than the planning one."""
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
    """Refuse a file store, before anything is planned, if its tasks would run on other machines."""
    master = spark.conf.get("spark.master") or ""
    if url.startswith("sqlite:") and not master.startswith("local"):
        raise BadConfig(
            f"a SQLite store can be read by a local Spark only, and this one runs on {master}; use local[*]"
        )
