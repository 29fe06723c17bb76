"""Reads the defaults of options from the `[tool.headrace]` table of pyproject.toml."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args, get_origin, get_type_hints

import typer

from headrace.model.errors import BadConfig
from headrace.model.validate import bounded_repr, nearest

GENERAL = ("url", "tenant", "queue", "app")
"""Settings for every command that has such an option."""

Functions = Mapping[str | None, Callable[..., Any]]


def defaults_of(
    table: Mapping[str, Any], command: str, functions: Functions, commands: Iterable[str]
) -> dict[str, Any]:
    """The defaults of a command and its sub-commands; `functions` are theirs, under None the command's own.

    `[tool.headrace]` holds general settings and a table for each of the `commands`, such as `[tool.headrace.worker]`;
    that table holds one for each sub-command. Raises `BadConfig` for a setting that no option has.
    """
    table = _with_underscores(table)
    for key in table:
        _check(key, (*GENERAL, *commands), "[tool.headrace]")
    general = {key: table[key] for key in GENERAL if key in table}
    own = _table(table, command, "[tool.headrace]")
    name = f"[tool.headrace.{command}]"
    subs = [each for each in functions if each is not None]
    known = {each: _parameters(function) for each, function in functions.items()}
    for key in own:
        _check(key, (*known.get(None, ()), *subs, *(each for sub in subs for each in known[sub])), name)
    own_plain = {key: value for key, value in own.items() if key not in subs}
    found: dict[str, Any] = _matching(general | own_plain, functions.get(None))
    for sub in subs:
        below = _table(own, sub, name)
        for key in below:
            _check(key, known[sub], f"[tool.headrace.{command}.{sub}]")
        found[sub] = _matching(general | own_plain | below, functions[sub])
    return {command: found}


def _with_underscores(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table with option names as Python writes them: `metrics-port` is `metrics_port`."""
    return {
        key.replace("-", "_"): _with_underscores(value) if isinstance(value, Mapping) else value
        for key, value in table.items()
    }


def _table(table: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
    found = table.get(key, {})
    if not isinstance(found, dict):
        raise BadConfig(f"{key} in {name} of pyproject.toml must be a table; found {bounded_repr(found)}")
    return found


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    found = inspect.signature(function).parameters.values()
    return tuple(each.name for each in found if each.annotation is not typer.Context)


def _matching(values: Mapping[str, Any], function: Callable[..., Any] | None) -> dict[str, Any]:
    if function is None:
        return {}
    known = get_type_hints(function)
    return {key: _value(key, value, known[key]) for key, value in values.items() if key in known}


def _value(key: str, value: Any, type: Any) -> Any:
    """A value as its option takes it: a list for an option that may be repeated, else one value."""
    is_list = list in (get_origin(each) for each in (type, *get_args(type)))
    if is_list and isinstance(value, str):
        return [value]
    if isinstance(value, list) and is_list and all(isinstance(each, str) for each in value):
        return value
    if is_list or not isinstance(value, str | int | float):
        wanted = "a string or a list of strings" if is_list else "a string, a number or a boolean"
        raise BadConfig(f"{key} in [tool.headrace] of pyproject.toml must be {wanted}; found {bounded_repr(value)}")
    return str(value) if str in (type, *get_args(type)) else value


def _check(key: str, known: tuple[str, ...], name: str) -> None:
    if key not in known:
        near = nearest(key, known)
        hint = f"did you mean {near!r}?" if near else f"known settings: {', '.join(dict.fromkeys(known))}"
        raise BadConfig(f"{name} of pyproject.toml has no setting {bounded_repr(key)}; {hint}")
