"""`headrace init`: writes a first app into the current folder, and says what to run."""

from pathlib import Path
from typing import Annotated

import typer

from headrace.app.discovery import FILE, project_file, project_table
from headrace.cli.first import text_of
from headrace.cli.options import Json
from headrace.cli.output import Output
from headrace.model.errors import BadConfig

APP = "app:app"
MODULES = ("app.py", "test_app.py")


def command(
    force: Annotated[
        bool, typer.Option("--force", help="Write app.py and test_app.py anew, whatever they hold.")
    ] = False,
    json: Json = False,
) -> None:
    """Write a first app into the current folder, and say what to run.

    app.py has two jobs, test_app.py their tests, and pyproject.toml says which app is meant. A pyproject.toml that is
    there already is left alone.
    """
    folder, output = Path.cwd(), Output(json=json)
    there = [name for name in MODULES if (folder / name).exists()]
    if there and not force:
        raise BadConfig(
            f"{' and '.join(there)} {'is' if len(there) == 1 else 'are'} in {folder} already; go to an empty folder, or"
            " write anew with --force"
        )
    project = project_file(folder)
    names = MODULES if project is not None else (*MODULES, FILE)
    for name in names:
        _write(folder / name)
    is_told = project is None or project_table(folder).get("app") == APP
    steps = next_steps(is_told)
    add = "" if is_told else f'[tool.headrace]\napp = "{APP}"\n'
    output.document(
        {
            "written": list(names),
            "add_to": str(project) if add else None,
            "add": add or None,
            "next": list(steps.values()),
        }
    )
    output.say(f"wrote {', '.join(names[:-1])} and {names[-1]}")
    if add:
        output.say(f"\nadd this to {project}, and you need not name the app:\n\n{add.rstrip()}")
    output.say("\n" + "\n".join(f"{told}\n  {typed}" for told, typed in steps.items()))


def next_steps(is_told: bool) -> dict[str, str]:
    """What to type next, and what for; the app is named where no project says which one is meant."""
    option, argument = ("", "") if is_told else (f" --app {APP}", f" {APP}")
    return {
        "send a job:": f"headrace enqueue greet name=Ada{option}",
        "run what is due (without --until-idle: run until Ctrl-C):": f"headrace worker{argument} --until-idle",
        "see what became of it:": "headrace jobs list",
        "run the tests:": "pytest",
    }


def _write(path: Path) -> None:
    try:
        path.write_text(text_of(path.name), encoding="utf-8")
    except OSError as error:
        raise BadConfig(f"{path} cannot be written: {error.strerror or error}") from error
