"""All commands and sub-commands, as the command line itself finds them."""

import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from headrace.cli.program import COMMANDS, functions_of


def functions() -> dict[tuple[str, ...], Callable[..., Any]]:
    """The function behind each command that is there, by the words that call it."""
    return {
        (name,) if sub is None else (name, sub): function
        for name, command in COMMANDS.items()
        if find_spec(command.module) is not None
        for sub, function in functions_of(import_module(command.module)).items()
    }


def parameters(words: tuple[str, ...]) -> tuple[str, ...]:
    """The names of what a command takes."""
    return tuple(inspect.signature(functions()[words]).parameters)
