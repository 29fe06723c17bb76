"""Builds the command line for what was asked: one command whole, the others by name."""

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.app.discovery import project_table
from headrace.cli import completing
from headrace.cli.commands import COMMANDS, Command
from headrace.cli.defaults import defaults_of
from headrace.cli.versions import version_of

PREFIX = "HEADRACE"
LIST = "list"
"""The sub-command that a group shows when it stands alone."""
_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "auto_envvar_prefix": PREFIX}


def built(given: Sequence[str]) -> typer.Typer:
    """The command line: importing all commands would take longer than most of them run."""
    if completing.is_asked():
        completing.teach()
    wanted = _wanted(given)
    program = typer.Typer(
        name="headrace",
        help="Job queues with leases, tenants and a journal.",
        epilog="Every option may also come from the environment (HEADRACE_URL, HEADRACE_WORKER_CAPACITY, …) or from a"
        " [tool.headrace] table of pyproject.toml.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=_SETTINGS,
        add_completion=False,  # ours names the shell instead of guessing it, and writes into nobody's files
    )
    program.callback()(_first)
    for name, command in COMMANDS.items():
        if name == wanted:
            _add(program, name, command)
        else:
            program.command(name, help=command.help)(_nothing)
    if wanted is not None and not completing.is_asked():
        functions = _functions(import_module(COMMANDS[wanted].module))
        defaults = defaults_of(project_table(Path.cwd()), wanted, functions)
        program.info.context_settings = _SETTINGS | {"default_map": defaults}
    return program


def spelled(given: Sequence[str]) -> list[str]:
    """The words with what goes without saying: a group alone, or with options only, shows its list."""
    words, wanted = list(given), _wanted(given)
    if wanted is None or completing.is_asked():
        return words
    behind = words.index(wanted) + 1
    following = words[behind] if behind < len(words) else "--"
    is_list = following.startswith("-") and following not in _SETTINGS["help_option_names"]
    if is_list and LIST in _functions(import_module(COMMANDS[wanted].module)):
        words.insert(behind, LIST)
    return words


def _wanted(given: Sequence[str]) -> str | None:
    """The command that is asked for, if it is one of ours."""
    words = completing.words_so_far() if completing.is_asked() else given
    found = next((word for word in words if not word.startswith("-")), None)
    return found if found in COMMANDS else None


def _told(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {version_of('headrace')}")
        raise typer.Exit


def _first(
    version: Annotated[
        bool,
        # Not from the environment: HEADRACE_VERSION may well say which version is deployed.
        typer.Option("--version", callback=_told, is_eager=True, allow_from_autoenv=False, help="Say the version."),
    ] = False,
    completion: Annotated[
        str | None,
        typer.Option(
            "--completion",
            metavar="|".join(completing.SHELLS),
            callback=completing.print_script,
            is_eager=True,
            allow_from_autoenv=False,
            help='Print what a shell needs to complete commands: eval "$(headrace --completion bash)".',
        ),
    ] = None,
) -> None:
    """What may be said before the command."""


def _nothing() -> None:
    """Stands for a command that nobody asked for."""


def _add(program: typer.Typer, name: str, command: Command) -> None:
    module = import_module(command.module)
    if hasattr(module, "commands"):
        program.add_typer(module.commands, name=name, help=command.help)
    else:
        program.command(name, short_help=command.help)(module.command)  # its own help is its docstring


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
