"""The rows that a command reads: which source, in which format, and which of its rows."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from headrace.pipeline.flows.ingest.source import Source

Named = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A path, a pattern of paths, a table of Spark's catalog, or - for a format without a path, such as jdbc.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", show_default=False, help="parquet, csv, json, orc, text, delta, …; guessed from the name."
    ),
]
Given = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="NAME=VALUE", help="An option of Spark's reader, as header=false; again for more."
    ),
]
Schema = Annotated[
    str | None,
    typer.Option("--schema", show_default=False, help="The columns, as 'id bigint, name string', instead of a guess."),
]
Sql = Annotated[
    str | None, typer.Option("--sql", show_default=False, help="A query of the rows: 'select … from source'.")
]
Where = Annotated[str | None, typer.Option("--where", show_default=False, help="Only rows for which this SQL is true.")]


def source_of(name: str, format: str | None, options: dict[str, str], master: str) -> "Source":  # noqa: A002 - as the option
    """The source of that name; refuses one that is not there, before Spark is started."""
    from headrace.pipeline.flows.ingest.source import find_source

    return find_source(name, format, options, local=master.startswith("local"))
