"""A program that writes history, for the run that kills it: `python -m tests.proof.spark_driver LIFE` (as JSON)."""

import os
import sys
import threading
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pyspark
from msgspec import Struct
from pyspark.sql import SparkSession

from headrace.pipeline.history.run import follow_history
from headrace.pipeline.history.table import read_history
from headrace.pipeline.spark_session import SHORT_RUN, session
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import Form
from tests.proof.spark_check import IDENTITY
from tests.proof.spark_executors import AT_ONCE, Executors
from tests.proof.spark_faults import FAULTS
from tests.proof.spark_processes import say
from tests.proof.spark_steps import Steps

LOCAL, CLUSTER = "local[2]", "local-cluster[2,1,1024]"
ON_ONE_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.extraJavaOptions": SHORT_RUN["spark.driver.extraJavaOptions"],
    "spark.sql.shuffle.partitions": "2",
    "spark.deploy.maxExecutorRetries": "-1",  # all of them may be killed
    **AT_ONCE,
}


class Life(Struct):
    """What a program does between its start and its end."""

    url: str
    history: str
    """The folder, or its URL."""
    work: str
    """A folder for what else there is to write."""
    form: Form = "delta"
    master: str = LOCAL
    step: str | None = None
    """Stand still at this step, to be killed there."""
    after: int = 0
    """Let so many batches of this life get by before."""
    once: bool = False
    events_max: int = 600
    count: bool = False
    """At the end, let Spark count what there is."""
    fault: str | None = None


class Teller:
    """Prints every step, and blocks at the chosen one."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._begun: set[int] = set()
        self._lock = threading.Lock()
        self._is_over = False

    def __call__(self, step: str, batch: int) -> None:
        with self._lock:
            if self._is_over:
                self._stand_still()
            if step == "begun":
                self._begun.add(batch)
            say("step", step, str(batch))
            if step == self._life.step and len(self._begun) > self._life.after:
                self._is_over = True
                say("here", step, str(batch))
                self._stand_still()

    def _stand_still(self) -> None:
        threading.Event().wait()


def spark_for(life: Life) -> SparkSession:
    """A session on the chosen master."""
    if life.master == LOCAL:
        return session("headrace proof", LOCAL, **SHORT_RUN)
    # Executors are started from SPARK_HOME and work in a folder of it, which must not be the installed package.
    home = Path(life.work) / "spark"
    home.mkdir(exist_ok=True)
    for part in Path(pyspark.__file__).parent.iterdir():
        if not (home / part.name).exists():
            (home / part.name).symlink_to(part)
    os.environ["SPARK_HOME"] = str(home)
    return session("headrace proof", life.master, **(SHORT_RUN | ON_ONE_MACHINE))


def main() -> None:
    """Live."""
    life = msgspec.json.decode(sys.argv[1], type=Life)
    if life.fault is not None:
        FAULTS[life.fault](setattr)
    spark = spark_for(life)
    say("started")
    if life.master == CLUSTER:
        Executors(spark).watch()
    Steps(Location.parse(life.history), Teller(life)).watch()
    query = follow_history(
        spark,
        life.url,
        life.history,
        form=life.form,
        once=life.once,
        every_ms=100,
        events_max=life.events_max,
    )
    query.awaitTermination()
    if life.count:
        counted = read_history(spark, life.history).groupBy(*IDENTITY).count()
        pq.write_table(counted.toArrow(), Path(life.work) / "counted.parquet")
    say("ended")


if __name__ == "__main__":
    main()
