"""Builds the command line for what was asked: one command whole, the others by name."""

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.app.project import project_table
from headrace.cli.commands import COMMANDS, Command
from headrace.cli.defaults import defaults_of

PREFIX = "HEADRACE"
COMPLETE = "_HEADRACE_COMPLETE"
_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "auto_envvar_prefix": PREFIX}


def built(given: Sequence[str], *, whole: bool = False) -> typer.Typer:
    """The command line, with the command that is asked for; importing all would take longer than most of them run.

    `whole` has all of them, for whoever wants to read what there is.
    """
    whole = whole or COMPLETE in os.environ
    wanted = next((word for word in given if not word.startswith("-")), None)
    program = typer.Typer(
        name="headrace",
        help="Job queues with leases, tenants and a journal.",
        epilog="Every option may also come from the environment (HEADRACE_URL, HEADRACE_WORKER_CAPACITY, …) or from a"
        " [tool.headrace] table of pyproject.toml.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=_SETTINGS,
    )
    program.callback()(_version)
    for name, command in COMMANDS.items():
        if whole or name == wanted:
            _add(program, name, command)
        else:
            program.command(name, help=command.help)(_nothing)
    if wanted is not None and wanted in COMMANDS:
        functions = _functions(import_module(COMMANDS[wanted].module))
        defaults = defaults_of(project_table(Path.cwd()), wanted, functions)
        program.info.context_settings = _SETTINGS | {"default_map": defaults}
    return program


def _told(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"headrace {version('headrace')}")
        raise typer.Exit


def _version(
    version: Annotated[
        bool,
        # Not from the environment: HEADRACE_VERSION may well say which version is deployed.
        typer.Option("--version", callback=_told, is_eager=True, allow_from_autoenv=False, help="Say the version."),
    ] = False,
) -> None:
    """What may be said before the command."""


def _nothing() -> None:
    """Stands for a command that nobody asked for."""


def _add(program: typer.Typer, name: str, command: Command) -> None:
    module = import_module(command.module)
    if hasattr(module, "commands"):
        program.add_typer(module.commands, name=name, help=command.help)
    else:
        program.command(name, help=command.help)(module.command)


def _functions(module: Any) -> dict[str | None, Callable[..., Any]]:
    """The functions behind a command: that of None for itself, those of a group by name."""
    if not hasattr(module, "commands"):
        return {None: module.command}
    group: typer.Typer = module.commands
    found: dict[str | None, Callable[..., Any]] = {
        each.name: each.callback for each in group.registered_commands if each.callback is not None
    }
    if group.registered_callback is not None and group.registered_callback.callback is not None:
        found[None] = group.registered_callback.callback
    return found
