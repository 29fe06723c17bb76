"""Lists all planted faults: of the memory store, of the Redis functions and of the SQL for PostgreSQL."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

import tests.support.feed_faults  # noqa: F401 - registers its faults beside those of jobs
from tests.support import faults


class Fault(NamedTuple):
    """One way to break one store."""

    store: str
    noticed_by: str
    """The test of the conformance suite that must fail because of it, as in "test_claim.py::test_…"."""
    plant: Callable[[str], None]


def all_faults() -> dict[str, Fault]:
    """Every fault by its name; a sentence names one store's fault only."""
    found = {name: Fault("memory", faults.NOTICED_BY[name], faults.plant) for name in faults.FAULTS}
    for store, module in (("redis", "tests.support.lua_faults"), ("postgres", "tests.support.sql_faults")):
        if find_spec(module) is not None:
            listed = import_module(module)
            found |= {name: Fault(store, test, listed.plant) for name, (_, test) in listed.FAULTS.items()}
    return found


def plant(name: str) -> None:
    """Break the store of this process that the fault is for."""
    if name in faults.FAULTS:  # avoids loading the other lists, which import the clients of servers
        faults.plant(name)
    else:
        all_faults()[name].plant(name)
