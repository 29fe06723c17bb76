"""A post: the driver's side of a slot, a job of Spark with one task, started again when it fell."""

import re
import threading
from collections.abc import Callable, Iterator
from typing import Literal

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.util import InheritableThread

from headrace.model.errors import BadConfig, Refused
from headrace.pipeline.flows.fleet.orders import Orders
from headrace.pipeline.spark_errors import headrace_error

GROUP = "spark.jobGroup.id"
SCHEMA = "slot long"
_CANCELLED = re.compile(r"SPARK_JOB_CANCELLED|OPERATION_CANCELED|Job \d+ cancelled|Stage \d+ cancelled")
_ENDED = re.compile(r"SparkContext was shut down|stopped SparkContext|session .*closed", re.IGNORECASE)

Fate = Literal["ended", "fell", "cancelled", "impossible"]


class Post:
    """One slot as the driver sees it. Each has a job of its own, so that where Spark does not run tasks again, as on
    local[N], a worker that crashes takes no other with it."""

    def __init__(self, spark: SparkSession, orders: Orders, slot: int, ended: threading.Event) -> None:
        self._spark = spark
        self._orders = orders
        self._ended = ended
        self._thread: threading.Thread | None = None
        self.slot = slot
        self.round = 0
        """How often it was begun."""
        self.falls = 0
        """In a row, while the fleet ended no job."""
        self.begins_at_ms: int | None = 0
        """When it is begun, or begun again; None while it runs, and when it is over."""
        self.error: Exception | None = None

    def begin(self) -> None:
        """Let a worker stand there."""
        self.round += 1
        self.begins_at_ms, self.error = None, None
        self._thread = InheritableThread(self._run, name=f"fleet-{self.slot}", daemon=True, session=self._spark)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether Spark has not answered yet."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_over(self) -> bool:
        """Whether nothing runs, nothing is to begin, and somebody has seen how it ended."""
        return self._thread is None and self.begins_at_ms is None

    def take_fate(self) -> Fate | None:
        """How it ended; told once, None while it has not."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        return "ended" if self.error is None else fate_of(self.error)

    def _run(self) -> None:
        orders, spark = self._orders, self._spark
        try:
            label(spark, orders.fleet, self.slot)
            frame = spark.range(self.slot, self.slot + 1, 1, 1).mapInArrow(task_of(orders, self.round), SCHEMA)
            frame.write.format("noop").mode("overwrite").save()
        except Exception as error:  # noqa: BLE001 - the driver decides what becomes of it
            self.error = error
        finally:
            self._ended.set()


def fate_of(error: Exception) -> Fate:
    """What an error of Spark means for the fleet."""
    if isinstance(headrace_error(error), BadConfig | Refused):
        return "impossible"
    text = str(error)
    if _ENDED.search(text):
        return "impossible"
    return "cancelled" if _CANCELLED.search(text) else "fell"


def told_of(error: Exception) -> Exception:
    """What went wrong: in our own words, where Spark repeats them on a page of its own."""
    return headrace_error(error) or error


def tag_of(fleet: str) -> str:
    """The tag of all jobs of a fleet, and their group where the caller has none."""
    return f"headrace-fleet-{fleet}"


def label(spark: SparkSession, fleet: str, slot: int) -> None:
    """Let all jobs of this thread be found: by the tag of their fleet, and by the group of whoever called."""
    spark.addTag(tag_of(fleet))
    context = spark.sparkContext
    if context.getLocalProperty(GROUP) is None:
        context.setJobGroup(tag_of(fleet), "")
    context.setJobDescription(f"headrace: fleet {fleet}, slot {slot}")


def task_of(orders: Orders, begun: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What the task of a slot does; its number comes as a row."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.pipeline.flows.fleet.executor import stand

        context = TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        for batch in batches:
            for slot in batch.column(0).to_pylist():
                stand(orders, slot, begun, attempt)
            yield batch

    return work
