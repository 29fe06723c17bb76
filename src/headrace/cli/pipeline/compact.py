"""`headrace pipeline compact`: merges small files of the history."""

from typing import Annotated

import typer

from headrace.cli.options import Json
from headrace.cli.output import Output, counted
from headrace.cli.pipeline.options import FOLDER, Dir, data_folder
from headrace.cli.pipeline.progress import ProgressLine
from headrace.cli.pipeline.session import short_path
from headrace.pipeline.packages import needing_spark

UntilDay = Annotated[str | None, typer.Option("--until-day", metavar="DAY", help="Last day to merge: 2030-01-31.")]


def compact(
    dir: Dir = FOLDER,  # noqa: A002 - the option's name
    until_day: UntilDay = None,
    json: Json = False,
) -> None:
    """Merge small files of the history, beside writers and readers.

    Example: headrace pipeline compact --until-day 2030-01-31
    """
    from headrace.pipeline.data_dir import DataDir

    with needing_spark():
        from headrace.pipeline.history.state import read_state

    output, data_dir = Output(json=json), DataDir(data_folder(dir))
    if read_state(data_dir.history) is None:
        output.document({"folders": 0})
        output.say(
            f"there is no history in {short_path(data_dir.folder)}; write one with: headrace pipeline history --once"
        )
        return
    line = ProgressLine(output)
    with line.running(f"compacting {short_path(data_dir.history)}"):
        from headrace.pipeline.history.compact import compact as merge_files

        report = merge_files(
            data_dir.history,
            until_day=until_day,
            on_progress=lambda done, total: line.update(f"{done:,}/{counted(total, 'merge')}", done, total),
        )
    output.document(report)
    if not report.folders:
        output.say("no small files to merge")
        return
    output.say(
        f"{report.files_before:,} files of {counted(report.folders, 'day')} became {report.files_after:,}:"
        f" {report.bytes_before / 2**20:,.1f} MiB, now {report.bytes_after / 2**20:,.1f} MiB"
    )
