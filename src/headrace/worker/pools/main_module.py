"""Loads the program's main module in another process, for handlers that are defined in it."""

import runpy
import sys
import types
from pathlib import Path

from headrace.model.errors import BadConfig

ALIAS = "__mp_main__"
"""The name that `multiprocessing` uses, too: programs may check for it."""


def locate() -> tuple[str | None, str | None]:
    """The name and path of the module that runs as `__main__`, for `load` in another process."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    path = getattr(main, "__file__", None)
    return (None if spec is None else spec.name), (None if path is None else str(Path(path).absolute()))


def load(name: str | None, path: str | None) -> None:
    """Run the parent's main module once under another name, which skips the code behind its guard."""
    if ALIAS in sys.modules:
        return
    if name is not None and name.rpartition(".")[2] == "__main__":
        raise BadConfig(f"{name} is run as a program and has no guard; define the handler in another module")
    if name is None and (path is None or not Path(path).is_file()):
        raise BadConfig("the main program is not a file that another process can read; define the handler in a module")
    module = sys.modules[ALIAS] = types.ModuleType(ALIAS)
    try:
        content = (
            runpy.run_path(str(path), run_name=ALIAS)
            if name is None
            else runpy.run_module(name, run_name=ALIAS, alter_sys=True)
        )
    except BaseException:
        del sys.modules[ALIAS]
        raise
    module.__dict__.update(content)
    sys.modules["__main__"] = module


def check_is_program() -> None:
    """Refuse to start a worker while a main module is being loaded: it would start processes without end."""
    running = sys.modules.get(ALIAS)
    if running is not None and sys.modules["__main__"] is not running:
        raise BadConfig(
            "the main program starts a worker whenever it is imported, and a process that it has started has just"
            " imported it; start it behind `if __name__ == '__main__':`"
        )
