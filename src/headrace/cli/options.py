"""Defines options that many commands share, groups of options, and groups of commands."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from headrace.app.discovery import project_table
from headrace.cli.store_access import APP_VARIABLE, resolve_url
from headrace.model.names import DEFAULT_QUEUE, DEFAULT_TENANT

if TYPE_CHECKING:
    from headrace.app.app import App

T = TypeVar("T")
TENANT = DEFAULT_TENANT
QUEUE = DEFAULT_QUEUE

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        envvar="HEADRACE_URL",
        show_envvar=False,
        show_default=False,  # it may hold a password
        help="Store to use: sqlite:///headrace.db (the default), redis://…, postgres://… [env: HEADRACE_URL]",
    ),
]
ALL = "*"
"""All tenants, as in `format("headrace")` and in the pipelines."""
Tenant = Annotated[str, typer.Option("--tenant", envvar="HEADRACE_TENANT", help="Tenant to use.")]
AnyTenant = Annotated[str, typer.Option("--tenant", envvar="HEADRACE_TENANT", help="Tenant to use; * means all.")]
AnyQueue = Annotated[
    str | None,
    typer.Option("--queue", "-q", envvar="HEADRACE_QUEUE", help="Queue to use; all queues of the tenant by default."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done without doing it.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Rows to show at most.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Continue where the previous page ended.")]
AppName = Annotated[
    str | None,
    typer.Option(
        "--app",
        envvar=APP_VARIABLE,
        show_envvar=False,
        help="Your app as module:name, such as app:app [env: HEADRACE_APP]",
    ),
]


def command_group(**functions: Callable[..., Any]) -> typer.Typer:
    """A group of commands, each under its name."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)
    for name, function in functions.items():
        group.command(name)(function)
    return group


def option_groups(function: Callable[..., T]) -> Callable[..., T]:
    """A command in which each parameter of a struct type stands for the fields of the struct, which are options.

    `def cancel(jobs: JobOptions, json: Json = False)` has an option for each field of `JobOptions`, then --json.
    """
    groups: dict[str, type[Struct]] = {}
    options: list[Parameter] = []
    for name, parameter in signature(function).parameters.items():
        group = parameter.annotation
        if isinstance(group, type) and issubclass(group, Struct):
            groups[name] = group
            hints = get_type_hints(group, include_extras=True)
            options += [_option(each.name, hints[each.name], each.default) for each in fields(group)]
        else:
            options.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))

    def command(**values: Any) -> T:
        for name, group in groups.items():
            values[name] = group(**{field: values.pop(field) for field in group.__struct_fields__})
        return function(**values)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__annotations__ = {each.name: each.annotation for each in options}
    command.__signature__ = Signature(options)  # type: ignore[attr-defined]
    return command


def _option(name: str, annotation: Any, default: Any) -> Parameter:
    default = Parameter.empty if default is NODEFAULT else default
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def is_typed(context: typer.Context, option: str) -> bool:
    """Whether an option was typed: it overrides the app's settings, which override environment and project table."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "COMMANDLINE"


def is_general(context: typer.Context, option: str) -> bool:
    """Whether an option got its value from the general settings of the project's table."""
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
    """The tenant of a worker. The general tenant of the project's table applies to named queues only: an app knows the
    tenant of its queues, and `enqueue` sends jobs there."""
    return None if not queues and is_general(context, "tenant") else tenant


def place_app(app: "App", context: typer.Context, url: str | None) -> "App":
    """Bind the app to its store: the typed URL, else the app's, else that of environment and project table."""
    app.use_url(resolve_url(url if is_typed(context, "url") or app.url is None else app.url))
    return app


def load_placed_app(name: str, context: typer.Context, url: str | None) -> "App":
    """Load the app of this name and bind it to its store; raises `BadConfig` for an unknown app."""
    from headrace.app.discovery import load_app

    return place_app(load_app(name), context, url)
