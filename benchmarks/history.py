"""Measures a history of many queues beside one of few: writing it, bytes an event, a query for one queue and day.

    python -m benchmarks.history [--events 100000] [--queues 5000] [--days 30] [--per-day 10] [--json]

CPU seconds are those of Java and of all Python processes. The query is over queues × 2 and so many days.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import msgspec
from msgspec import Struct
from pyspark.sql import SparkSession

from benchmarks.contenders import redis
from benchmarks.spark_filling import on_store
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.pipeline.history.run import follow_history
from headrace.pipeline.history.table import APP, HistoryState, history_files, history_table, read_history
from headrace.pipeline.spark_session import session
from headrace.pipeline.storage.write import write_files
from headrace.stores.contract.store import Store
from tests.support.redis_servers import RedisServer

FEW = 20
"""Queues, beside many."""
BATCH = 200
"""Jobs a call."""
FIRST_DAY = date(2030, 1, 1)


class Written(Struct):
    """What it took to write a history of so many queues."""

    queues: int
    cpu_s: float
    wall_s: float
    files: int
    bytes_per_event: float


class Queried(Struct):
    """What a count for one queue and day took, and what there was."""

    queues: int
    days: int
    events: int
    files: int
    mb: float
    cpu_s: float
    wall_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--queues", type=int, default=5_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--per-day", type=int, default=10, help="events of each queue and day")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    spark = session("headrace bench", "local[2]")
    spark.range(10).mapInArrow(lambda batches: batches, "id long").count()  # Python workers have started
    with RedisServer() as server, tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        place = redis(server.launch(), "fast")
        written = [
            write(spark, place.fresh_url(), Path(folder) / f"{queues}-{turn}", options.events, queues)
            for turn in range(2)
            for queues in (FEW, options.queues)
        ][2:]  # the first turn warms Java
        queried = query(spark, Path(folder) / "days", options.queues * 2, options.days, options.per_day)
    spark.stop()
    if options.json:
        print(json.dumps({"written": msgspec.to_builtins(written), "queried": msgspec.to_builtins(queried)}))
        return
    for each in written:
        print(
            f"{options.events:,} events of {each.queues:,} queues: {each.cpu_s:.1f} CPU s, {each.wall_s:.1f} s,"
            f" {each.files} files, {each.bytes_per_event:.1f} bytes an event"
        )
    print(
        f"a count for one of {queried.queues:,} queues and one of {queried.days} days, {queried.events:,} events in"
        f" {queried.files} files of {queried.mb:.0f} MB: {queried.cpu_s:.2f} CPU s, {queried.wall_s:.2f} s"
    )


def write(spark: SparkSession, url: str, folder: Path, events: int, queues: int) -> Written:
    """Fill a store with jobs of so many queues, and write their history in one batch."""
    on_store(url, lambda store: fill(store, events, queues))

    def run() -> None:
        assert follow_history(spark, url, folder, once=True, events_max=events, consumer=None).awaitTermination(600)

    cpu_s, wall_s = _costs(run)
    sizes = [Path(file).stat().st_size for file in history_files(folder)]
    assert read_history(spark, folder).count() == events
    return Written(queues, cpu_s, wall_s, len(sizes), sum(sizes) / events)


async def fill(store: Store, events: int, queues: int) -> None:
    """Enqueue so many jobs, in turn on so many queues."""
    names = [Queue(f"queue-{number:05}") for number in range(queues)]
    for start in range(0, events, BATCH):
        jobs = [Job(queue=names[at % queues], id=f"job-{at}", kind="send") for at in range(start, start + BATCH)]
        await store.jobs.enqueue(jobs)


def query(spark: SparkSession, folder: Path, queues: int, days: int, per_day: int) -> Queried:
    """Write a history of so many queues and days, a batch a day, and count the events of one queue on one day."""
    table = history_table(folder)
    table.prepare()
    known = {"seq", "queue", "happened_at", "id", "tenant", "shard", "epoch", "event", "kind", "day", "batch"}
    for number in range(days):
        day = FIRST_DAY + timedelta(days=number)
        frame = spark.range(queues * per_day, numPartitions=2).selectExpr(
            f"id DIV {queues} + {number * per_day + 1} AS seq",
            f"format_string('queue-%05d', id % {queues}) AS queue",
            f"timestamp_seconds(unix_seconds(TIMESTAMP'{day} 00:00:00') + id % 86400) AS happened_at",
            "uuid() AS id",
            "'default' AS tenant",
            "0 AS shard",
            "1L AS epoch",
            "'enqueued' AS event",
            "'send' AS kind",
            f"DATE'{day}' AS day",
            f"{number}L AS batch",
        )
        others = [name for name in table.layout.schema.names if name not in known]
        frame = frame.selectExpr(
            "*", *(f"CAST(NULL AS {_sql_type(table.layout.schema, name)}) AS {name}" for name in others)
        )
        table.commit(write_files(frame, table, batch=number), batch=(APP, number), state=HistoryState(batch=number))
    wanted = f"queue = 'queue-{queues // 2:05d}' AND day = DATE'{FIRST_DAY + timedelta(days=days // 2)}'"

    def count() -> None:
        assert read_history(spark, folder).where(wanted).count() == per_day

    count()  # Java has compiled the plan
    cpu_s, wall_s = _costs(count)
    sizes = [Path(file).stat().st_size for file in history_files(folder)]
    return Queried(queues, days, queues * days * per_day, len(sizes), sum(sizes) / 2**20, cpu_s, wall_s)


def _sql_type(schema: object, name: str) -> str:
    kind = str(schema.field(name).type)  # type: ignore[attr-defined]  # pyarrow has no types
    return {"string": "STRING", "int32": "INT", "int64": "BIGINT"}.get(kind, "TIMESTAMP")


def _costs(act: Callable[[], None]) -> tuple[float, float]:
    """CPU seconds of this process and all that descend from it, and seconds."""
    cpu_s, wall_s = _cpu_s(os.getpid()), time.perf_counter()
    act()
    return _cpu_s(os.getpid()) - cpu_s, time.perf_counter() - wall_s


def _cpu_s(pid: int) -> float:
    """Of a process, of those that descend from it, and of those that have ended and were waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        tasks = list(Path(f"/proc/{pid}/task").glob("*/children"))
        children = [int(child) for task in tasks for child in task.read_text().split()]
    except OSError:  # it has just ended
        return 0.0
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_cpu_s(child) for child in children)


if __name__ == "__main__":
    main()
