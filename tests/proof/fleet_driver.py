"""A program that maps rows or runs a fleet, for the runs that kill it: `python -m tests.proof.fleet_driver LIFE`."""

import os
import sys
import threading
from pathlib import Path

import msgspec
from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.pipeline.flows.fleet.report import FleetProgress
from headrace.pipeline.flows.fleet.run import run_fleet
from headrace.pipeline.flows.map.results import MapProgress
from headrace.pipeline.flows.map.run import map_rows
from tests.proof.fleet_app import LEASE_MS
from tests.proof.fleet_faults import DRIVERS, FAULT
from tests.proof.spark_driver import CLUSTER, spark_for
from tests.proof.spark_driver import Life as SparkLife
from tests.proof.spark_processes import say

NAME = "proof"
RESULTS = "answers"
APP = "tests.proof.fleet_app:app"


class Life(Struct):
    """The arguments of one life of the program."""

    url: str
    folder: str
    rows: int
    maps: bool
    """Whether it maps; else it runs a fleet on existing jobs."""
    master: str = CLUSTER
    capacity: int = 20
    ms: int = 10
    """How long a handler takes."""
    cancels_at: int | None = None
    """Cancel all jobs of Spark once so many are finished."""
    fault: str | None = None


def main() -> None:
    """Run one life."""
    life = msgspec.json.decode(sys.argv[1], type=Life)
    if life.fault is not None:
        os.environ[FAULT] = life.fault
        if life.fault in DRIVERS:
            DRIVERS[life.fault](setattr)
    spark = spark_for(SparkLife(url=life.url, history="", work=life.folder, master=life.master))
    say("started")
    (_map if life.maps else _fleet)(spark, life)
    say("ended")
    threading.Event().wait()  # its processes are counted, and then killed


def _map(spark: SparkSession, life: Life) -> None:
    rows = spark.range(life.rows).select(
        F.col("id").alias("n"), F.lit(life.folder).alias("folder"), F.lit(life.ms).alias("ms")
    )

    def tell(progress: MapProgress) -> None:
        say("far", progress.step, str(progress.rows - progress.open if progress.step == "running" else 0))

    mapped = map_rows(
        rows,
        APP,
        "square",
        key="n",
        name=NAME,
        url=life.url,
        workers=2,
        schema="square bigint",
        folder=Path(life.folder) / RESULTS,
        on_progress=tell,
        capacity=life.capacity,
        lease=LEASE_MS / 1_000,
    )
    say("mapped", str(mapped.created), str(mapped.duplicate))


def _fleet(spark: SparkSession, life: Life) -> None:
    is_cancelled = False

    def tell(progress: FleetProgress) -> None:
        nonlocal is_cancelled
        over = life.rows - progress.waiting - progress.active
        say("far", "running", str(over))
        if life.cancels_at is not None and over >= life.cancels_at and not is_cancelled:
            is_cancelled = True
            threading.Thread(target=spark.sparkContext.cancelAllJobs).start()

    report = run_fleet(
        spark, APP, url=life.url, workers=2, on_progress=tell, capacity=life.capacity, lease=LEASE_MS / 1_000
    )
    say("fleet", report.end_reason, str(report.done + report.dead), str(report.crashes))


if __name__ == "__main__":
    main()
