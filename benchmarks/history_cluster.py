"""Measures a batch of the history on a standalone cluster of one executor and of two, and the share of its tasks.

    python -m benchmarks.history_cluster [--events 400000] [--rounds 3] [--json]

With tasks that take P seconds on one executor, and S seconds of a batch in which none runs, two executors can be
(S + P) / (S + P / 2) times as fast: that bound is shown beside what was measured.
"""

import argparse
import json
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from pyspark.sql import SparkSession

from benchmarks.contenders import redis
from benchmarks.history import fill
from benchmarks.spark_filling import on_store
from headrace.pipeline.history.run import follow_history
from headrace.pipeline.spark_session import session
from tests.support.process import wait_until
from tests.support.redis_servers import RedisServer
from tests.support.spark_servers import SparkMaster, SparkWorker

QUEUES = 1_000
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "768m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.liveUpdate.period": "0",
}


class Measured(Struct):
    """The median round on so many executors."""

    executors: int
    wall_s: float
    tasks_s: float
    """Of all tasks together."""
    batch_ms: dict[str, int]
    """Where Spark says that the batch spent its time."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: list[Measured] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
        url = redis(stack.enter_context(RedisServer().launch()), "fast").fresh_url()
        on_store(url, lambda store: fill(store, options.events, QUEUES))
        master = stack.enter_context(SparkMaster().launch())
        for executors in (1, 2):
            stack.enter_context(SparkWorker(master)).start()
            wait_until(lambda count=executors: master.workers() == count, "the Workers")  # type: ignore[misc]
            spark = session("headrace bench", master.address, **CONF)
            found.append(measure(spark, url, folder / str(executors), options.events, executors, options.rounds))
            spark.stop()
    one, two = found
    outside_s = max(one.wall_s - one.tasks_s, 0.0)
    bound = (outside_s + one.tasks_s) / (outside_s + one.tasks_s / 2)
    if options.json:
        print(json.dumps({"measured": msgspec.to_builtins(found), "faster": one.wall_s / two.wall_s, "bound": bound}))
        return
    for each in found:
        print(f"{each.executors} executors: {each.wall_s:.2f} s, of tasks {each.tasks_s:.2f} s; {each.batch_ms}")
    print(f"two are {one.wall_s / two.wall_s:.2f} times as fast; by the share of tasks they could be {bound:.2f}")


def measure(spark: SparkSession, url: str, folder: Path, events: int, executors: int, rounds: int) -> Measured:
    """Write the history of the same store anew in each round, as one batch."""
    spark.range(100, numPartitions=8).mapInArrow(lambda batches: batches, "id long").count()
    found: list[Measured] = []
    for turn in range(rounds + 1):
        before, begun = _task_s(spark), time.perf_counter()
        query = follow_history(spark, url, folder / str(turn), once=True, events_max=events, consumer=None)
        assert query.awaitTermination(600)
        wall_s = time.perf_counter() - begun
        [batch] = [each for each in query.recentProgress if each["numInputRows"]]
        found.append(Measured(executors, wall_s, _task_s(spark) - before, dict(batch["durationMs"])))
    # The first round warms Java.
    median = statistics.median_low([each.wall_s for each in found[1:]])
    return next(each for each in found[1:] if each.wall_s == median)


def _task_s(spark: SparkSession) -> float:
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    executors = store.executorList(False)
    return float(sum(executors.apply(number).totalDuration() for number in range(executors.size()))) / 1_000


if __name__ == "__main__":
    main()
