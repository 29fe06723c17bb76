"""The project that a program belongs to: the `[tool.headrace]` table of the nearest pyproject.toml."""

import os
import tomllib
from pathlib import Path
from typing import Any

from headrace.model.errors import BadConfig
from headrace.model.validate import bounded_repr

FILE = "pyproject.toml"


def project_file(folder: Path) -> Path | None:
    """The nearest pyproject.toml in `folder` or above it."""
    for each in (folder, *folder.parents):
        if (found := each / FILE).is_file():
            return found
    return None


def project_table(folder: Path) -> dict[str, Any]:
    """The settings for Headrace in the nearest pyproject.toml; empty when there are none."""
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


DEFAULT_URL = "sqlite:///headrace.db"
VARIABLE = "HEADRACE_URL"


def url_of(given: str | None) -> str:
    """The URL that holds at this moment."""
    return given if given is not None else os.environ.get(VARIABLE, "").strip() or DEFAULT_URL


def is_memory(url: str) -> bool:
    """Whether the store lives in this process, and dies with it."""
    return url.startswith("memory:")
