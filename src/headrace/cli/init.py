"""`headrace init`: writes a first app into the current folder, and prints the next commands."""

from pathlib import Path
from typing import Annotated

import typer

from headrace.app.discovery import FILE, project_file, project_table
from headrace.cli.options import Json
from headrace.cli.output import Output
from headrace.cli.templates import template_text
from headrace.model.errors import BadConfig

APP = "app:app"
MODULES = ("app.py", "test_app.py")


def command(
    force: Annotated[bool, typer.Option("--force", help="Overwrite app.py and test_app.py.")] = False,
    json: Json = False,
) -> None:
    """Write a first app into the current folder.

    app.py has two jobs, test_app.py their tests, and pyproject.toml names the app. An existing pyproject.toml is left
    unchanged. The command prints what to run next.

    Example: headrace init
    """
    folder, output = Path.cwd(), Output(json=json)
    existing = [name for name in MODULES if (folder / name).exists()]
    if existing and not force:
        raise BadConfig(
            f"{' and '.join(existing)} {'is' if len(existing) == 1 else 'are'} already in {folder}; use an empty"
            " folder, or overwrite with --force"
        )
    project = project_file(folder)
    names = MODULES if project is not None else (*MODULES, FILE)
    for name in names:
        _write(folder / name)
    names_app = project is None or project_table(folder).get("app") == APP
    steps = next_steps(names_app)
    add = "" if names_app else f'[tool.headrace]\napp = "{APP}"\n'
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
        output.say(f"\nadd this to {project}, so that commands find the app:\n\n{add.rstrip()}")
    output.say("\n" + "\n".join(f"{purpose}\n  {command}" for purpose, command in steps.items()))


def next_steps(names_app: bool) -> dict[str, str]:
    """The next commands by their purpose; they name the app unless the project does."""
    option, argument = ("", "") if names_app else (f" --app {APP}", f" {APP}")
    return {
        "send a job:": f"headrace enqueue greet name=Ada{option}",
        "run due jobs (without --until-idle: run until Ctrl-C):": f"headrace worker{argument} --until-idle",
        "see the result:": "headrace jobs list",
        "run the tests:": "pytest",
    }


def _write(path: Path) -> None:
    try:
        path.write_text(template_text(path.name), encoding="utf-8")
    except OSError as error:
        raise BadConfig(f"{path} cannot be written: {error.strerror or error}") from error
