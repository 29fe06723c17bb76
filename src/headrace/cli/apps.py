"""Finds the app that a command is about, and lets it be where the command line says."""

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.opening import APP_VARIABLE, lasting

if TYPE_CHECKING:
    from headrace.app.app import App

AppName = Annotated[
    str | None,
    typer.Option(
        "--app",
        envvar=APP_VARIABLE,
        show_envvar=False,
        help="Your app as module:name, such as app:app [env: HEADRACE_APP]",
    ),
]


def is_typed(context: typer.Context, option: str) -> bool:
    """Whether an option was typed. What an app says of itself beats the environment and the project's table, which are
    for commands without an app; what a person types beats all."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def placed(app: "App", context: typer.Context, url: str | None) -> "App":
    """The app at the store that holds: the one that was typed, else its own, else that of environment and table."""
    return app.at(lasting(url if is_typed(context, "url") or app.url is None else app.url))


def found_app(name: str, context: typer.Context, url: str | None) -> "App":
    """The app of that name, at the store that holds; raises `BadConfig` when there is none."""
    from headrace.app.loading import load_app

    return placed(load_app(name), context, url)
