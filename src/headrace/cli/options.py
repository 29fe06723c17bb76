"""Options that many commands share, each written once."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.app.discovery import project_table
from headrace.cli.store_access import APP_VARIABLE, lasting
from headrace.model.names import DEFAULT_QUEUE, DEFAULT_TENANT

if TYPE_CHECKING:
    from headrace.app.app import App


Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="HEADRACE_URL",
        show_envvar=False,
        show_default=False,  # it may hold a password
        help="Where the jobs are: sqlite:///headrace.db (the default), redis://…, postgres://… [env: HEADRACE_URL]",
    ),
]
Tenant = Annotated[str, typer.Option("--tenant", envvar="HEADRACE_TENANT", help="Whose queues.")]
QueueName = Annotated[str, typer.Option("--queue", "-q", envvar="HEADRACE_QUEUE", help="Which queue.")]
AnyQueue = Annotated[
    str | None,
    typer.Option("--queue", "-q", envvar="HEADRACE_QUEUE", help="Which queue; all of the tenant when not given."),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")]

TENANT = DEFAULT_TENANT
QUEUE = DEFAULT_QUEUE


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


def is_general(context: typer.Context, option: str) -> bool:
    """Whether an option has its value from the part of the project's table that is for all commands."""
    source = context.get_parameter_source(option)
    if source is None or source.name != "DEFAULT_MAP":
        return False
    table = project_table(Path.cwd())
    for command in context.command_path.split()[1:]:
        table = table.get(command, {})
        if option in table:
            return False
    return True


def worker_tenant(context: typer.Context, queues: list[str] | None, tenant: str | None) -> str | None:
    """The tenant that a worker is told. One that the project's table holds for all commands is for queues that are
    named: an app knows whose its own are, and `enqueue` sends them there."""
    return None if not queues and is_general(context, "tenant") else tenant


def placed(app: "App", context: typer.Context, url: str | None) -> "App":
    """The app at the store that holds: the one that was typed, else its own, else that of environment and table."""
    app.use_url(lasting(url if is_typed(context, "url") or app.url is None else app.url))
    return app


def found_app(name: str, context: typer.Context, url: str | None) -> "App":
    """The app of that name, at the store that holds; raises `BadConfig` when there is none."""
    from headrace.app.discovery import load_app

    return placed(load_app(name), context, url)
