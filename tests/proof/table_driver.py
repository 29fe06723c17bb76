"""A program that brings tables forward by batches of a history, until it is killed or has reached the end.

python -m tests.proof.table_driver LIFE    (as JSON)
"""

import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql import SparkSession

from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.event_source import Events, events
from headrace.pipeline.history.run import follow_history
from headrace.pipeline.history.table import read_state
from headrace.pipeline.spark_session import SHORT_RUN, session
from headrace.pipeline.stats.table import state_of
from headrace.pipeline.storage import table as steps
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import DataTable, Form, open_table
from headrace.pipeline.tables.increment import mark_of
from headrace.pipeline.tables.layouts import LAYOUTS
from headrace.pipeline.tables.write import write_tables
from tests.proof.spark_faults import FAULTS
from tests.proof.spark_processes import say
from tests.proof.table_check import COMPARED, compare_tables

CONF = {
    "spark.sql.shuffle.partitions": "2",
    # A life has few rows and many plans: to compile each takes longer than to run it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


class TableLife(Struct):
    """What a program does between its start and its end."""

    url: str
    """The store whose journals the history is to have."""
    folder: str
    """The folder of history and tables, or its URL."""
    work: str
    """A folder for the tables that are made anew."""
    form: Form = "delta"
    batch_events: int = 100
    """Of the history."""
    step: str | None = None
    """Stand still at this step of the second turn, to be killed there."""
    is_last: bool = False
    """Go to the end, and compare with tables that are made anew."""
    fault: str | None = None


def main() -> None:
    """Live."""
    life = msgspec.json.decode(sys.argv[1], type=TableLife)
    data_dir = DataDir(Location.parse(life.folder))
    spark = session("headrace proof", "local[2]", **(SHORT_RUN | CONF))
    if read_state(data_dir.history) is None:  # no life ends before it is whole
        follow_history(
            spark, life.url, data_dir.history, form=life.form, once=True, events_max=life.batch_events, consumer=None
        ).awaitTermination()
    tables = {name: open_table(data_dir.location(name), LAYOUTS[name], life.form) for name in COMPARED}
    for table in tables.values():
        table.prepare()
    if life.fault is not None:
        FAULTS[life.fault](setattr)
    announce_commits(setattr)
    bring_forward(spark, life, data_dir, tables)
    if life.is_last:
        anew = DataDir(Path(life.work) / "anew")
        write_tables(spark, events(spark, None, data_dir), anew, rebuild=True)
        for name, found in compare_tables(spark, data_dir, anew).items():
            say("table", name, str(found.rows), str(found.missing), str(found.surplus))
    say("ended")


def bring_forward(spark: SparkSession, life: TableLife, data_dir: DataDir, tables: dict[str, DataTable]) -> None:
    """One batch a turn, from the last that any table has; the last life takes what is left at once."""
    whole = events(spark, None, data_dir)
    assert whole.head is not None, "the history was written"
    done = max(0, *(_last_batch(name, table) for name, table in tables.items()))
    for turn, head in enumerate(sorted({done, whole.head}) if life.is_last else range(done, whole.head + 1)):
        if turn == 1 and life.step is not None:
            steps.crash_point = _stand_still_at(life.step)
        say("turn", str(head))
        write_tables(spark, _upto(whole, head), data_dir)


def announce_commits(plant: Any) -> None:
    """Say where each commit begins and ends."""
    plain = DataTable.commit

    def commit(self: DataTable, files: Any, **options: Any) -> None:
        say("committing", self.layout.name)
        plain(self, files, **options)
        say("committed", self.layout.name)

    plant(DataTable, "commit", commit)


def _last_batch(name: str, table: DataTable) -> int:
    now = table.prepare()
    mark = state_of(now) if name == "stats" else mark_of(now)
    return -1 if mark is None else mark.batch


def _upto(whole: Events, head: int) -> Events:
    return replace(whole, head=head)


def _stand_still_at(wanted: str) -> Any:
    def reached(step: str, _number: int) -> None:
        if step == wanted:
            say("here", step)
            threading.Event().wait()

    return reached


if __name__ == "__main__":
    main()
