"""Writes the report of a folder."""

from pathlib import Path

from pyspark.sql import SparkSession

from headrace.model.clock import SystemClock
from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.files import write_whole
from headrace.pipeline.report.collect import collect
from headrace.pipeline.report.page import page
from headrace.pipeline.report.part import ReportPart
from headrace.pipeline.source.options import ALL

TITLE = "Headrace report"


def write_report(
    spark: SparkSession,
    data_dir: DataDir,
    *,
    tenant: str = ALL,
    queue: str = ALL,
    title: str | None = None,
    now_ms: int | None = None,
) -> Path:
    """Draw the tables of a folder as one HTML page, and return where it is: `report.html` in that folder.

    The page is a single file without links to others: it opens from a disk, and from a mail. It shows what is there of
    the tables stats, attempts, errors and usage, and says which command writes what is missing; BadConfig if there is
    none of them. A report that is there already is replaced. `now_ms` is when it says it was made; now, if left out.

    With a `tenant`, or a `queue` (several with commas between them), it shows that part alone. The tables of errors and
    usage do not tell queues apart: they must have been made from that queue's events.
    """
    made_at_ms = SystemClock().now_ms() if now_ms is None else now_ms
    numbers = collect(spark, data_dir, made_at_ms=made_at_ms, part=ReportPart(tenant, queue))
    write_whole(data_dir.report, page(numbers, title=title or TITLE).encode())
    return data_dir.report
