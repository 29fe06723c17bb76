"""Defaults of options: the `[tool.headrace]` table, made into what a command line understands."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_args, get_origin, get_type_hints

import typer

from headrace.cli.commands import COMMANDS
from headrace.model.errors import BadConfig
from headrace.model.validate import bounded_repr, nearest

GENERAL = ("url", "tenant", "queue", "app")
"""Settings that hold for every command which has such an option."""

Functions = Mapping[str | None, Callable[..., Any]]


def defaults_of(table: Mapping[str, Any], command: str, functions: Functions) -> dict[str, Any]:
    """The defaults of a command and its sub-commands; `functions` are theirs, None for the command itself.

    `[tool.headrace]` holds what is general and a table per command: `[tool.headrace.worker]`, and below it one per
    sub-command. Raises `BadConfig` for a setting that no option has.
    """
    table = _plain(table)
    for key in table:
        _check(key, (*GENERAL, *COMMANDS), "[tool.headrace]")
    general = {key: table[key] for key in GENERAL if key in table}
    own = _table(table, command, "[tool.headrace]")
    name = f"[tool.headrace.{command}]"
    subs = [each for each in functions if each is not None]
    known = {each: _parameters(function) for each, function in functions.items()}
    for key in own:
        _check(key, (*known.get(None, ()), *subs, *(each for sub in subs for each in known[sub])), name)
    own_plain = {key: value for key, value in own.items() if key not in subs}
    found: dict[str, Any] = _fitting(general | own_plain, functions.get(None))
    for sub in subs:
        below = _table(own, sub, name)
        for key in below:
            _check(key, known[sub], f"[tool.headrace.{command}.{sub}]")
        found[sub] = _fitting(general | own_plain | below, functions[sub])
    return {command: found}


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table with option names as Python has them: `metrics-port` is `metrics_port`."""
    return {
        key.replace("-", "_"): _plain(value) if isinstance(value, Mapping) else value for key, value in table.items()
    }


def _table(table: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise BadConfig(f"{key} in {name} of pyproject.toml must be a table; found {bounded_repr(found)}")
    return found


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    found = inspect.signature(function).parameters.values()
    return tuple(each.name for each in found if each.annotation is not typer.Context)


def _fitting(values: Mapping[str, Any], function: Callable[..., Any] | None) -> dict[str, Any]:
    if function is None:
        return {}
    known = get_type_hints(function)
    return {key: _value(key, value, known[key]) for key, value in values.items() if key in known}


def _value(key: str, value: Any, type: Any) -> Any:
    """A value as the option takes it: whatever may be given several times is a list, all else is one value."""
    is_list = list in (get_origin(each) for each in (type, *get_args(type)))
    if is_list and isinstance(value, str):
        return [value]
    if isinstance(value, list) and is_list and all(isinstance(each, str) for each in value):
        return value
    if is_list or not isinstance(value, str | int | float):
        wanted = "a text or a list of texts" if is_list else "one text, number or truth value"
        raise BadConfig(f"{key} in [tool.headrace] of pyproject.toml must be {wanted}; found {bounded_repr(value)}")
    return str(value) if str in (type, *get_args(type)) else value


def _check(key: str, known: tuple[str, ...], name: str) -> None:
    if key not in known:
        near = nearest(key, known)
        hint = f"did you mean {near!r}?" if near else f"known are {', '.join(dict.fromkeys(known))}"
        raise BadConfig(f"{name} of pyproject.toml has no setting {bounded_repr(key)}; {hint}")
