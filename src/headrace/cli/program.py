"""Builds the command line for the words that were typed: one command whole, the others by name and help."""

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from headrace.app.discovery import project_table
from headrace.cli.defaults import defaults_of


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
    "migrate": Command("headrace.cli.migrate", "Bring the schema of the store to this version."),
    "pipeline": Command("headrace.cli.pipeline", "Build history, tables, statistics and the report with Spark."),
    "demo": Command("headrace.cli.demo.command", "Run sample jobs on SQLite and report on them with Spark."),
}
"""The commands in the order of the help. A command's module is imported only when it runs."""

PREFIX = "HEADRACE"
COMPLETION_VARIABLE = f"_{PREFIX}_COMPLETE"
"""Set by a shell that asks for completions."""
LIST = "list"
"""The sub-command that a group runs when it stands alone."""
_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "auto_envvar_prefix": PREFIX}


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
    """The words with `list` behind a group that stands alone or with options only."""
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
    """The first word that is a command, if any."""
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
        # Not from the environment: HEADRACE_VERSION may well say which version is deployed.
        typer.Option(
            "--version", callback=_print_version, is_eager=True, allow_from_autoenv=False, help="Show the version."
        ),
    ] = False,
) -> None:
    """The options that may stand before the command."""


def _not_imported() -> None:
    """Stands for a command that does not run."""


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
