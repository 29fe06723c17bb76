"""The group of commands about jobs, and the options that several of them have."""

from typing import Annotated

import typer

from headrace.model.job import State

commands = typer.Typer(no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)

AnyState = Annotated[State | None, typer.Option("--state", help="Only jobs in this state.")]
Kind = Annotated[str | None, typer.Option("--kind", help="Only jobs of this kind.")]
Tag = Annotated[str | None, typer.Option("--tag", help="Only jobs with this tag.")]
OlderThan = Annotated[
    str | None, typer.Option("--older-than", metavar="TIME", help="Enqueued before: 30m, 2d, or an instant.")
]
NewerThan = Annotated[
    str | None, typer.Option("--newer-than", metavar="TIME", help="Enqueued since: 30m, 2d, or an instant.")
]
Everything = Annotated[bool, typer.Option("--all", help="Without a filter: all of them.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="The jobs; or choose by filter.")]
JobId = Annotated[str, typer.Argument(metavar="ID", help="The job.")]
