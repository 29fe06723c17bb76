"""Builds the command line: imports the typed command only, and takes defaults from `[tool.headrace]`."""

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

import typer

from headrace.app.discovery import project_table
from headrace.model.errors import BadConfig
from headrace.model.validate import bounded_repr, nearest

PREFIX = "HEADRACE"
COMPLETION_VARIABLE = f"_{PREFIX}_COMPLETE"
"""Set by a shell that asks for completions."""
LIST = "list"
"""The subcommand that a group runs by default."""
_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "auto_envvar_prefix": PREFIX}
GENERAL = ("url", "tenant", "queue", "app")
"""Settings that apply to every command with the option."""
Functions = Mapping[str | None, Callable[..., Any]]


class Command(NamedTuple):
    """A command in its module, which has either a function `command` or a group of commands, `commands`."""

    module: str
    help: str


COMMANDS: Final = {
    "init": Command("headrace.cli.init", "Write a first app into the current folder."),
    "worker": Command("headrace.cli.worker", "Run the jobs of an app."),
    "enqueue": Command("headrace.cli.enqueue", "Send a job, or many from a file."),
    "jobs": Command("headrace.cli.jobs", "List, search, show, cancel and remove jobs."),
    "queues": Command("headrace.cli.queues", "Show, pause, resume, configure, purge and delete queues."),
    "dead": Command("headrace.cli.dead", "List, show, replay and purge dead letters."),
    "feeds": Command("headrace.cli.feeds", "Create, fill, sort, follow and delete feeds."),
    "workers": Command("headrace.cli.workers", "Show the workers of the last day and the jobs they hold."),
    "doctor": Command("headrace.cli.doctor", "Check the store and everything in it, and say what to fix."),
    "serve": Command("headrace.cli.serve", "Serve the store over HTTP to callers with tokens."),
    "token": Command("headrace.cli.token", "Make keys and tokens for the service."),
    "migrate": Command("headrace.cli.migrate", "Bring the schema of the store to this version."),
    "pipeline": Command("headrace.cli.pipeline", "Build history, tables, statistics and the report with Spark."),
    "demo": Command("headrace.cli.demo.command", "Run sample jobs on SQLite and report on them with Spark."),
}
"""The commands in the order of the help. A command's module is imported only when it runs."""


def build_program(arguments: Sequence[str]) -> typer.Typer:
    """The command line: importing all commands would take longer than most of them run."""
    wanted = _wanted(arguments)
    program = typer.Typer(
        name="headrace",
        help="Job queues with leases, tenants and a journal.",
        epilog="Options may also come from the environment (HEADRACE_URL, HEADRACE_WORKER_CAPACITY, …) or from the"
        " [tool.headrace] table of pyproject.toml.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=_SETTINGS,
    )
    program.callback()(_global_options)
    for name, command in COMMANDS.items():
        if name == wanted:
            _add(program, name, command)
        else:
            program.command(name, help=command.help)(_not_imported)
    if wanted is not None and not _is_completion() and (table := project_table(Path.cwd())):
        functions = functions_of(import_module(COMMANDS[wanted].module))
        defaults = defaults_of(table, wanted, functions, COMMANDS)
        program.info.context_settings = _SETTINGS | {"default_map": defaults}
    return program


def expand_words(arguments: Sequence[str]) -> list[str]:
    """The words, with `list` inserted after a group that has no subcommand."""
    words, wanted = list(arguments), _wanted(arguments)
    if wanted is None or _is_completion():
        return words
    behind = words.index(wanted) + 1
    following = words[behind] if behind < len(words) else "--"
    is_list = following.startswith("-") and following not in _SETTINGS["help_option_names"]
    if is_list and LIST in functions_of(import_module(COMMANDS[wanted].module)):
        words.insert(behind, LIST)
    return words


def _is_completion() -> bool:
    return COMPLETION_VARIABLE in os.environ


def _wanted(arguments: Sequence[str]) -> str | None:
    """The typed command, if any."""
    words = arguments
    if _is_completion():
        typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
        words = typed.split()[1:]
    first = next((word for word in words if not word.startswith("-")), None)
    return first if first in COMMANDS else None


def version_of(package: str) -> str:
    """The version of an installed package; a phrase for a source tree."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed: a source tree)"


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {version_of('headrace')}")
        raise typer.Exit


def _global_options(
    version: Annotated[
        bool,
        # Not from the environment: HEADRACE_VERSION may name the deployed version.
        typer.Option(
            "--version", callback=_print_version, is_eager=True, allow_from_autoenv=False, help="Show the version."
        ),
    ] = False,
) -> None:
    """The options before the command."""


def _not_imported() -> None:
    """A placeholder for a command whose module is not imported."""


def _add(program: typer.Typer, name: str, command: Command) -> None:
    module = import_module(command.module)
    if hasattr(module, "commands"):
        program.add_typer(module.commands, name=name, help=command.help)
    else:
        program.command(name, short_help=command.help)(module.command)  # its own help is its docstring


def functions_of(module: Any) -> dict[str | None, Callable[..., Any]]:
    """The functions behind a command: under None its own, under their names those of a group."""
    if not hasattr(module, "commands"):
        return {None: module.command}
    group: typer.Typer = module.commands
    functions: dict[str | None, Callable[..., Any]] = {
        each.name: each.callback for each in group.registered_commands if each.callback is not None
    }
    if group.registered_callback is not None and group.registered_callback.callback is not None:
        functions[None] = group.registered_callback.callback
    return functions


def defaults_of(
    table: Mapping[str, Any], command: str, functions: Functions, commands: Iterable[str]
) -> dict[str, Any]:
    """The defaults of a command and its subcommands, whose functions are given by name; None is the command itself.

    `[tool.headrace]` holds general settings and a table for each of the `commands`, such as `[tool.headrace.worker]`;
    that table holds one for each subcommand. Raises `BadConfig` for a setting that no option has.
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
    """A value in the form of its option: a list for a repeatable option, else one value."""
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
