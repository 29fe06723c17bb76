"""Plants a fault in the worker or the client of this process.

A fault is a piece of source that is replaced when its module is imported. The simulation must notice every one of
them: see tests/simulation/test_planted_faults.py.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from tests.simulation.planted_faults import FAULTS

SOURCES = Path(__file__).parents[2] / "src"


def plant(name: str) -> None:
    """Break the worker or the client of this process in the named way; before anything imports them."""
    assert "headrace" not in sys.modules, "something has imported headrace already"
    sys.meta_path.insert(0, Planter(name))


def broken(name: str) -> str:
    """The source of the module that the fault is planted in, with the fault."""
    module, old, new = FAULTS[name]
    source = (SOURCES / f"{module.replace('.', '/')}.py").read_text()
    assert source.count(old) == 1, f"{module} has {source.count(old)} times what {name} replaces:\n{old}"
    return source.replace(old, new)


class Planter(MetaPathFinder):
    """Finds the one module that is broken."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Found like any other, loaded with the fault."""
        if fullname != FAULTS[self._name][0]:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        assert spec is not None
        assert spec.origin is not None
        spec.loader = BrokenLoader(fullname, spec.origin, self._name)
        return spec


class BrokenLoader(SourceFileLoader):
    """Compiles the broken source, whatever was compiled before."""

    def __init__(self, fullname: str, path: str, name: str) -> None:
        super().__init__(fullname, path)
        self._name = name

    def get_code(self, fullname: str) -> CodeType:
        """The code of the module with the fault."""
        code: CodeType = compile(broken(self._name), self.get_filename(fullname), "exec")
        return code
