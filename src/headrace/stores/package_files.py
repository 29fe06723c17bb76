"""Reads the SQL and Lua files that lie beside a driver, a whole folder at once."""

from importlib.resources import files
from importlib.resources.abc import Traversable


def read_folder(package: str, folder: str, suffix: str) -> dict[str, str]:
    """The texts of the files in a package's folder and in those below it, by path without the suffix, in order.

    A driver reads its folder when it is imported and never again: a program goes on with the files that it began with,
    also after the package was upgraded or removed under it.
    """
    return dict(sorted(_texts(files(package) / folder, "", suffix)))


def _texts(folder: Traversable, prefix: str, suffix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _texts(each, f"{prefix}{each.name}/", suffix)
        elif each.name.endswith(suffix):
            found.append((prefix + each.name.removesuffix(suffix), each.read_text("utf-8")))
    return found
