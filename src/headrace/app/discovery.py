"""Finds an app by its name `module:name`, the settings for Headrace in pyproject.toml, and the URL of the store."""

import importlib
import os
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from headrace.model.errors import BadConfig
from headrace.model.redact import redact
from headrace.model.validate import bounded_repr, nearest

if TYPE_CHECKING:
    from headrace.app.app import App

DEFAULT_NAME = "app"
FILE = "pyproject.toml"
DEFAULT_URL = "sqlite:///headrace.db"
VARIABLE = "HEADRACE_URL"


def load_app(target: str) -> "App":
    """The app named by `target`: "shop.jobs:app", or "shop.jobs" if it is called `app`.

    The working directory is searched first, as `python -m` does. Raises `BadConfig` if the app is not found.
    """
    # Programs that only look up settings or a URL load no app.
    from headrace.app.app import App

    module_name, _, name = target.partition(":")
    name = name or DEFAULT_NAME
    if not all(part.isidentifier() for part in (*module_name.split("."), name)):
        raise BadConfig(
            f"an app is named by its module and its name there, as in shop.jobs:app; found {bounded_repr(target)}"
        )
    module = _import_module(module_name)
    found = getattr(module, name, None)
    if isinstance(found, App):
        return found
    what = "nothing" if found is None else f"a {type(found).__name__}"
    raise BadConfig(f"{target} should be a headrace.App; found {what} of that name{_hint(module, module_name, name)}")


def _import_module(name: str) -> ModuleType:
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
            raise _import_error(name, missing) from missing  # another module, imported by this one
        raise BadConfig(
            f"there is no module {bounded_repr(name)} in {folder} or among the installed ones; run this in the folder"
            " of your app, or name it as module:app"
        ) from missing
    except Exception as error:
        raise _import_error(name, error) from error


def _import_error(name: str, error: Exception) -> BadConfig:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"
    message = redact(" ".join(str(error).split()))
    return BadConfig(
        f"the module {bounded_repr(name)} raised {type(error).__name__}{where} while it was imported: {message}"
    )


def _hint(module: ModuleType, module_name: str, name: str) -> str:
    from headrace.app.app import App

    apps = [each for each, value in vars(module).items() if isinstance(value, App)]
    near = nearest(name, apps, cutoff=0.0)
    return f"; did you mean {module_name}:{near}?" if near else f"; make one there: {name} = App()"


def project_file(folder: Path) -> Path | None:
    """The nearest pyproject.toml in `folder` or above it."""
    for each in (folder, *folder.parents):
        if (found := each / FILE).is_file():
            return found
    return None


def project_table(folder: Path) -> dict[str, Any]:
    """The `[tool.headrace]` table of the nearest pyproject.toml; empty when there is none."""
    file = project_file(folder)
    if file is None:
        return {}
    try:
        tools = tomllib.loads(file.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadConfig(f"{file} cannot be read for its [tool.headrace] table: {error}") from error
    found = tools.get("headrace", {}) if isinstance(tools, dict) else tools
    if not isinstance(found, dict):
        raise BadConfig(f"[tool.headrace] of {file} must be a table; found {bounded_repr(found)}")
    return found


def url_of(app_url: str | None) -> str:
    """The URL to use now: the app's own, else that of the environment, else a file in the working directory."""
    return app_url if app_url is not None else os.environ.get(VARIABLE, "").strip() or DEFAULT_URL


def is_memory(url: str) -> bool:
    """Whether the URL names a store in the memory of this process."""
    return url.startswith("memory:")
