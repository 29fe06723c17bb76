"""The program's main module in another process, for handlers that are defined there."""

import runpy
import sys
import types
from pathlib import Path

from headrace.model.errors import BadConfig

BROUGHT = "__mp_main__"
"""The name that `multiprocessing` gives it as well, so that programs which know about it need to know nothing new."""


def where() -> tuple[str | None, str | None]:
    """The name of the module that runs as `__main__`, and its path; what a process needs to bring it along."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    path = getattr(main, "__file__", None)
    return (None if spec is None else spec.name), (None if path is None else str(Path(path).absolute()))


def bring(name: str | None, path: str | None) -> None:
    """Run the main module of the parent under another name, once, so that what is behind its guard is not run."""
    if BROUGHT in sys.modules:
        return
    if name is not None and name.rpartition(".")[2] == "__main__":
        raise BadConfig(f"{name} is run as a program and has no guard; define the handler in another module")
    if name is None and (path is None or not Path(path).is_file()):
        raise BadConfig("the main program is no file that another process can read; define the handler in a module")
    module = sys.modules[BROUGHT] = types.ModuleType(BROUGHT)
    try:
        content = (
            runpy.run_path(str(path), run_name=BROUGHT)
            if name is None
            else runpy.run_module(name, run_name=BROUGHT, alter_sys=True)
        )
    except BaseException:
        del sys.modules[BROUGHT]
        raise
    module.__dict__.update(content)
    sys.modules["__main__"] = module


def check_is_program() -> None:
    """Refuse to go on in a main module that is only being brought along: it would start processes without end."""
    running = sys.modules.get(BROUGHT)
    if running is not None and sys.modules["__main__"] is not running:
        raise BadConfig(
            "the main program starts a worker whenever it is imported, and a process that it has started has just"
            " imported it; start it behind `if __name__ == '__main__':`"
        )
