"""Which machine this is: a store that is a file can be read and written on its own machine only."""

import platform
from functools import cache
from pathlib import Path

from pyspark.sql.datasource import InputPartition

from headrace.model.errors import BadConfig
from headrace.stores.open import split, sqlite_path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@cache
def here() -> str:
    """The name of this machine and, where there is one, the number of its start: two machines may share a name."""
    boot = _BOOT_ID.read_text().strip() if _BOOT_ID.is_file() else ""
    return f"{platform.node()} {boot}".strip()


def check_here(url: str, planned_on: str) -> None:
    """Refuse a store that is a file in a task that runs on another machine than the one that planned it."""
    parts, options = split(url)
    if parts.scheme != "sqlite" or planned_on == here():
        return
    raise BadConfig(
        f"the store {sqlite_path(parts, options)} is a file on machine {_name(planned_on)}, and this task runs on"
        f" {_name(here())}; use a local master, or a store that is a server (redis://, postgres://)"
    )


def _name(machine: str) -> str:
    return machine.partition(" ")[0]


class LocalPartition(InputPartition):
    """What one task does, and the machine on which that was planned: made there, and checked in the task."""

    def __init__(self, value: object = None) -> None:
        super().__init__(value)
        self.planned_on = here()


def check_master(url: str, master: str) -> None:
    """Refuse, before anything is planned, a file whose reader would run on other machines."""
    if url.startswith("sqlite:") and not master.startswith("local"):
        raise BadConfig(
            f"a SQLite store can be read by a local Spark only, and this one runs on {master}; use local[*]"
        )
