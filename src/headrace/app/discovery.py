"""Finds an app by its name, `module:name`, as a command line or a test configuration gives it."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

from headrace.app.app import App
from headrace.model.errors import BadConfig
from headrace.model.redact import redact
from headrace.model.validate import bounded_repr, nearest

DEFAULT_NAME = "app"


def load_app(target: str) -> App:
    """The app that `target` names: "shop.jobs:app", or "shop.jobs" when it is called `app`.

    The working directory is searched first, as `python -m` does. Raises `BadConfig` for what is not there.
    """
    module_name, _, name = target.partition(":")
    name = name or DEFAULT_NAME
    if not all(part.isidentifier() for part in (*module_name.split("."), name)):
        raise BadConfig(
            f"an app is named by its module and its name there, as in shop.jobs:app; found {bounded_repr(target)}"
        )
    module = _imported(module_name)
    found = getattr(module, name, None)
    if isinstance(found, App):
        return found
    what = "nothing" if found is None else f"a {type(found).__name__}"
    raise BadConfig(f"{target} should be a headrace.App; found {what} of that name{_hint(module, module_name, name)}")


def _imported(name: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
            raise _broken(name, missing) from missing  # something that the module itself imports
        raise BadConfig(
            f"there is no module {bounded_repr(name)} in {folder} or among the installed ones; run this in the folder"
            " of your app, or name it as module:app"
        ) from missing
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> BadConfig:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"
    told = redact(" ".join(str(error).split()))
    return BadConfig(
        f"the module {bounded_repr(name)} raised {type(error).__name__}{where} while it was imported: {told}"
    )


def _hint(module: ModuleType, module_name: str, name: str) -> str:
    apps = [each for each, value in vars(module).items() if isinstance(value, App)]
    near = nearest(name, apps, cutoff=0.0)
    return f"; did you mean {module_name}:{near}?" if near else f"; make one there: {name} = App()"
