"""Says which tables a command has written, where they are, and which part of the events they hold."""

from collections.abc import Sequence
from typing import Any

from headrace.cli.output import Output, counted
from headrace.cli.pipeline.options import ALL
from headrace.cli.pipeline.session import PipelineRequest, short_path

ROWS_SHOWN = 20
Row = dict[str, Any]


def write_document(
    output: Output, request: PipelineRequest, origin: str, counts: dict[str, int], **rows: Sequence[Row]
) -> None:
    """Write the JSON document: the tables with their row counts, and the shown rows."""
    tables = {name: {"rows": count, "folder": str(request.data_dir.location(name))} for name, count in counts.items()}
    output.document({"origin": origin, "tables": tables, **rows})


def say_tables(
    output: Output, request: PipelineRequest, source: str, counts: dict[str, int], more: int, next_command: str
) -> None:
    """Say the source of the tables, their row counts and their folders."""
    if more:
        output.say(f"and {more:,} more; --limit shows them")
    output.say(f"from {source}:")
    for name, count in counts.items():
        output.say(f"  {counted(count, 'row')} in {short_path(request.data_dir.location(name))}")
    say_selection(output, request, *counts)
    output.hint(f"next: {request.words(next_command)}")


def say_selection(output: Output, request: PipelineRequest, *tables: str) -> None:
    """Say which tables now hold one tenant or queue only, whatever they held before."""
    selections = [("tenant", request.tenant), ("queue", request.queue)]
    selection = " and ".join(f"{what} {name}" for what, name in selections if name != ALL)
    if selection:
        names = " and ".join(filter(None, (", ".join(tables[:-1]), tables[-1])))
        output.hint(f"{names} now {'hold' if tables[1:] else 'holds'} {selection} alone; another --dir keeps both")
