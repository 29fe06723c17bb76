"""Completion of the command line by a shell: its script, and which words it has so far."""

import os

import typer

VARIABLE = "_HEADRACE_COMPLETE"
"""What a shell asks with: `complete_bash` and the like."""
SHELLS = ("bash", "zsh", "fish")


def is_asked() -> bool:
    """Whether a shell asks what may come next, instead of a person for a command."""
    return VARIABLE in os.environ


def words_so_far() -> list[str]:
    """What was typed behind the name of the program."""
    typed = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    return typed.split()[1:]


def teach() -> None:
    """Let the command line answer shells; it takes time that only their questions are worth."""
    from typer._completion_classes import completion_init

    completion_init()


def print_script(shell: str | None) -> None:
    """Print what a shell must know, and end; nothing for no shell."""
    if shell is None:
        return
    if shell not in SHELLS:
        raise typer.BadParameter(f"{shell!r:.60} is no shell that can be completed in; known are {', '.join(SHELLS)}")
    from typer._completion_shared import get_completion_script

    typer.echo(get_completion_script(prog_name="headrace", complete_var=VARIABLE, shell=shell))
    raise typer.Exit
