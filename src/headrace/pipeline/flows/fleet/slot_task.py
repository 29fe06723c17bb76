"""Runs the worker of one slot as a Spark job with a single task, and says how that job ended."""

import re
import threading
from collections.abc import Callable, Iterator
from typing import Literal

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.util import InheritableThread

from headrace.model.errors import BadConfig, Refused
from headrace.pipeline.flows.fleet.executor import FleetSpec
from headrace.pipeline.spark_errors import headrace_error

JOB_GROUP = "spark.jobGroup.id"
SCHEMA = "slot long"
_CANCELLED = re.compile(r"SPARK_JOB_CANCELLED|OPERATION_CANCELED|Job \d+ cancelled|Stage \d+ cancelled")
_SESSION_ENDED = re.compile(r"SparkContext was shut down|stopped SparkContext|session .*closed", re.IGNORECASE)

ExitReason = Literal["finished", "crashed", "cancelled", "failed"]
"""A `crashed` task may be started again; a `failed` one would fail again."""


class SlotTask:
    """One slot as the driver sees it.

    Each slot has its own Spark job: where Spark does not retry tasks, as on local[N], a crash stops no other worker.
    """

    def __init__(self, spark: SparkSession, spec: FleetSpec, slot: int, on_exit: threading.Event) -> None:
        self._spark = spark
        self._spec = spec
        self._on_exit = on_exit
        self._thread: threading.Thread | None = None
        self.slot = slot
        self.starts = 0
        self.crashes = 0
        """In a row, while the fleet settled no delivery."""
        self.start_at_ms: int | None = 0
        """When to start, or start again; None while it runs and once it is over."""
        self.error: Exception | None = None

    def start(self) -> None:
        """Start the Spark job, and with it a worker."""
        self.starts += 1
        self.start_at_ms, self.error = None, None
        self._thread = InheritableThread(self._run, name=f"fleet-{self.slot}", daemon=True, session=self._spark)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the Spark job has not returned yet."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_over(self) -> bool:
        """Whether nothing runs, no start is due, and `take_exit` has returned the reason."""
        return self._thread is None and self.start_at_ms is None

    def take_exit(self) -> ExitReason | None:
        """Why the Spark job ended; returned once, None while it runs."""
        if self._thread is None or self._thread.is_alive():
            return None
        self._thread = None
        return "finished" if self.error is None else exit_reason(self.error)

    def _run(self) -> None:
        spec, spark = self._spec, self._spark
        try:
            label_jobs(spark, spec.fleet, self.slot)
            frame = spark.range(self.slot, self.slot + 1, 1, 1).mapInArrow(task_function(spec, self.starts), SCHEMA)
            frame.write.format("noop").mode("overwrite").save()
        except Exception as error:  # noqa: BLE001 - the supervisor decides what to do about it
            self.error = error
        finally:
            self._on_exit.set()


def exit_reason(error: Exception) -> ExitReason:
    """What an error of Spark means for the fleet."""
    if isinstance(headrace_error(error), BadConfig | Refused):
        return "failed"
    text = str(error)
    if _SESSION_ENDED.search(text):
        return "failed"
    return "cancelled" if _CANCELLED.search(text) else "crashed"


def fleet_tag(fleet: str) -> str:
    """The tag of all Spark jobs of a fleet, and their group where the caller has set none."""
    return f"headrace-fleet-{fleet}"


def label_jobs(spark: SparkSession, fleet: str, slot: int) -> None:
    """Label the Spark jobs of this thread: with the tag of their fleet, a description, and the caller's group."""
    spark.addTag(fleet_tag(fleet))
    context = spark.sparkContext
    if context.getLocalProperty(JOB_GROUP) is None:
        context.setJobGroup(fleet_tag(fleet), "")
    context.setJobDescription(f"headrace: fleet {fleet}, slot {slot}")


def task_function(spec: FleetSpec, start: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that the task of a slot runs; the slot's number arrives as a row."""

    def run_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from headrace.pipeline.flows.fleet.executor import run_worker

        context = TaskContext.get()
        attempt = 0 if context is None else context.attemptNumber()
        for batch in batches:
            for slot in batch.column(0).to_pylist():
                run_worker(spec, slot, start, attempt)
            yield batch

    return run_task
