"""Loads the exported names of a package one by one, when a program uses them."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from importlib import import_module
from typing import Any

Guard = Callable[[], AbstractContextManager[None]]


def attach(package: str, guard: Guard = nullcontext) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package that exports what it imports in its block `if TYPE_CHECKING:`.

    That block is the only list of the names: type checkers and editors read it, and so does this, once and not before
    the first name is used. Modules are imported within `guard`.
    """

    @cache
    def homes() -> dict[str, str]:
        return _exports(package)

    def load(name: str) -> Any:
        if name == "__all__":  # for `from package import *` and for inspect
            return sorted(homes())
        if name.startswith("__") or name not in homes():
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with guard():
            value = getattr(import_module(homes()[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes()})

    return load, names


def _exports(package: str) -> dict[str, str]:
    """Each exported name with its module, from the source of the package."""
    # A command line that uses none of the names starts without these.
    import ast
    import linecache

    module = sys.modules[package]
    source = "".join(linecache.getlines(module.__file__ or "", vars(module)))  # also from a zip archive
    if not source:
        raise ImportError(f"the source of {package} is missing, which lists its names; install it with its .py files")
    return {
        alias.name: node.module
        for block in ast.parse(source).body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }
