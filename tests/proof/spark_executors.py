"""The executors of a Spark program as its driver knows them: which of them work, and what was lost with those that are
gone."""

import threading
import time
from typing import Any

from pyspark.sql import SparkSession

from tests.proof.spark_processes import say

EXECUTOR_STEPS = ("begun", "writing")
"""The steps of a batch at which executors have work: they read it, and write its files. Everything later is done by the
driver."""
AT_ONCE = {"spark.ui.liveUpdate.period": "0"}
"""The driver's figures are of now, not of a moment ago."""
LOOK_S = 0.01


class Executors:
    """Prints `busy ID …` when other executors get a task, and `lost N` when further tasks fail."""

    def __init__(self, spark: SparkSession) -> None:
        self._store: Any = spark.sparkContext._jsc.sc().statusStore()

    def watch(self) -> None:
        """Begin."""
        threading.Thread(target=self._look_on, daemon=True).start()

    def _look_on(self) -> None:
        said: tuple[list[str], int] = ([], 0)
        while True:
            busy, failed = self._look()
            if busy != said[0]:
                say("busy", *busy)
            if failed != said[1]:
                say("lost", str(failed))
            said = (busy, failed)
            time.sleep(LOOK_S)

    def _look(self) -> tuple[list[str], int]:
        found = self._store.executorList(False)
        every = [found.apply(index) for index in range(found.size())]
        busy = [each.id() for each in every if each.isActive() and each.activeTasks()]
        return sorted(busy), sum(each.failedTasks() for each in every)
