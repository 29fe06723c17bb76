"""Faults that can be planted in the worker and the client, each under a name that says what is broken.

A fault is a piece of source that is replaced before its module is imported. The simulation must notice every one of
them: see tests/simulation/test_planted.py.
"""

import sys
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import NamedTuple

from tests.simulation.fault_table import FAULTS


class Planted(NamedTuple):
    """Where a fault was put."""

    module: str
    source: str


def plant(name: str) -> None:
    """Break the worker or the client of this process in the named way; before anything else is imported."""
    for module_name, old, new in FAULTS[name]:
        planted = broken(module_name, old, new)
        _replace(planted)


def broken(module_name: str, old: str, new: str) -> Planted:
    """The source of a module with the fault in it."""
    spec = find_spec(module_name)
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text()
    known = sys.modules.get(module_name)
    if known is not None:  # a second fault for the same module
        source = getattr(known, "__planted_source__", source)
    assert source.count(old) == 1, f"{module_name} has {source.count(old)} times what is to be replaced:\n{old}"
    return Planted(module_name, source.replace(old, new))


def _replace(planted: Planted) -> None:
    spec = find_spec(planted.module)
    assert spec is not None
    module = module_from_spec(spec)
    vars(module)["__planted_source__"] = planted.source
    sys.modules[planted.module] = module
    exec(compile(planted.source, str(spec.origin), "exec"), vars(module))  # noqa: S102 - our own source, one piece changed
