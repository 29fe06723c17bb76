"""Keep the reference in docs/reference/command-line.md in step with the commands: it is made of what `--help` says.

tools/commands.py            say whether it differs; ends with 1 if it does
tools/commands.py --write    write the reference anew
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from headrace.cli.program import COMMANDS, PREFIX, build_program

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/reference/command-line.md"
EXAMPLE = "Example: "
"""Begins the last paragraph of a help text."""
MARK = "<!-- from here on written by tools/commands.py -->\n"


def reference() -> str:
    """Every command with its arguments and options, as Markdown."""
    lines: list[str] = []
    for name in COMMANDS:
        program: Any = typer.main.get_command(build_program([name]))
        context = program.make_context("headrace", [], resilient_parsing=True)
        command = program.commands[name]
        lines += _section(f"headrace {name}", command, command.make_context(name, [], context, resilient_parsing=True))
    return "\n".join(lines)


def rewritten(text: str) -> str:
    """The page with the reference as it is now."""
    head, mark, _ = text.partition(MARK)
    return f"{head}{mark}\n{reference()}"


def _section(path: str, command: Any, context: Any) -> Iterator[str]:
    subs: dict[str, Any] = getattr(command, "commands", {})
    text, _, example = " ".join(_sentence(command.help).split()).partition(EXAMPLE)
    yield from (f"{'##' if path.count(' ') == 1 else '###'} {path}", "", text.strip(), "")
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option" and each.name != "help"]
    usage = " ".join([path, *(each.make_metavar(context) for each in arguments), *(["[OPTIONS]"] if options else [])])
    if not subs:
        yield from ("```", usage, *([example] if example else []), "```", "")
    rows = [*map(_argument(context), arguments), *map(_option(path), options)]
    if rows:
        yield from ("| | | default | environment |", "|---|---|---|---|", *rows, "")
    for name, sub in subs.items():
        yield from _section(f"{path} {name}", sub, sub.make_context(name, [], context, resilient_parsing=True))


def _argument(context: Any) -> Any:
    return lambda each: f"| `{each.make_metavar(context)}` | {_cell(getattr(each, 'help', None))} | | |"


def _option(path: str) -> Any:
    prefix = "_".join([PREFIX, *path.split()[1:]]).upper()

    def row(option: Any) -> str:
        names = ", ".join(f"`{name}`" for name in option.opts)
        default = option.default if option.show_default is not False else None
        shown = (
            "" if default in (None, False, (), []) or callable(default) else f"`{getattr(default, 'value', default)}`"
        )
        variable = option.envvar or f"{prefix}_{option.name}".upper()
        return f"| {names} | {_cell(option.help)} | {shown} | `{variable}` |"

    return row


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _sentence(text: str | None) -> str:
    return (text or "").strip()


def main(arguments: Sequence[str]) -> int:
    text = PAGE.read_text("utf-8")
    new = rewritten(text)
    if "--write" in arguments:
        PAGE.write_text(new, "utf-8")
        return 0
    if new != text:
        print("commands: docs/reference/command-line.md is not what --help says; use --write")
    return int(new != text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
