"""Options that many commands share, each written once."""

from typing import Annotated

import typer

from headrace.model.names import DEFAULT_QUEUE, DEFAULT_TENANT

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
