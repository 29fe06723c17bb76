"""Starts each slot of a fleet as a Spark job of one task, restarts those that crashed, and stops all at the end."""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.util import InheritableThread

from headrace.client.background import StorePortal
from headrace.model.clock import monotonic_ms
from headrace.model.errors import BadConfig, HeadraceError, Refused
from headrace.model.limits import FLEET_CRASHES_MAX, FLEET_MARGIN_MS
from headrace.model.names import Queue
from headrace.model.policy import backoff
from headrace.model.results import Counts
from headrace.pipeline.flows.fleet.executor import FleetSpec, clear_stop_request, request_stop, total_counts
from headrace.pipeline.flows.fleet.report import FleetProgress, SettlementCounter
from headrace.pipeline.spark_errors import headrace_error
from headrace.stores.contract.store import Store

JOB_GROUP = "spark.jobGroup.id"
SCHEMA = "slot long"
_CANCELLED = re.compile(r"SPARK_JOB_CANCELLED|OPERATION_CANCELED|Job \d+ cancelled|Stage \d+ cancelled")
_SESSION_ENDED = re.compile(r"SparkContext was shut down|stopped SparkContext|session .*closed", re.IGNORECASE)

ExitReason = Literal["finished", "crashed", "cancelled", "failed"]
"""A `crashed` task may be started again; a `failed` one would fail again."""
POLL_SECONDS = 0.2
PROGRESS_MS = 1_000
RESTART_MS = 200
RESTART_MS_MAX = 5_000
"""The pause before a restart doubles with each crash in a row."""
KILL_SECONDS = 5.0
"""The time in which Spark ends the process of a cancelled task: it polls every two seconds, then waits two more
(`spark.python.task.killTimeout`)."""
CANCEL_SECONDS = 30.0
"""The time in which Spark must confirm that it has cancelled a job."""
StopReason = Literal["stopped", "timed_out", "cancelled"]


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
        """Consecutive crashes without a settled delivery of the fleet."""
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


class Supervisor:
    """Runs the slot tasks of one fleet, on the thread that calls `run`."""

    def __init__(
        self,
        spark: SparkSession,
        spec: FleetSpec,
        workers: int,
        portal: StorePortal,
        settlements: SettlementCounter,
        queues: Sequence[Queue],
    ) -> None:
        self._spark = spark
        self._spec = spec
        self._portal = portal
        self._settlements = settlements
        self._queues = list(queues)
        self._task_exit = threading.Event()
        self._settled = 0
        self._finished = 0
        self._reported_ms = 0
        self._failure: Exception | None = None
        self.tasks = [SlotTask(spark, spec, slot, self._task_exit) for slot in range(workers)]
        self.crashes = 0
        self.stop_reason: StopReason | None = None
        """Why the fleet was stopped; None if its workers ended themselves."""

    def run(
        self,
        grace_ms: int,
        for_ms: int | None,
        stopping: threading.Event,
        on_progress: Callable[[FleetProgress], None] | None,
    ) -> int:
        """Supervise until all tasks are over, and return the time it took in ms; raises what no restart can cure."""
        began_ms = self._reported_ms = monotonic_ms()
        cancel_at_ms: int | None = None
        try:
            while not all(task.is_over for task in self.tasks):
                now_ms = monotonic_ms()
                self._start_tasks(now_ms)
                self._task_exit.wait(POLL_SECONDS)
                self._task_exit.clear()
                for task in self.tasks:
                    self._handle_exit(task)
                if stopping.is_set():
                    self.stop_reason = self.stop_reason or "stopped"
                elif for_ms is not None and now_ms - began_ms >= for_ms:
                    self.stop_reason = self.stop_reason or "timed_out"
                if self._is_stopping and cancel_at_ms is None:
                    self._request_stop()
                    cancel_at_ms = now_ms + grace_ms + FLEET_MARGIN_MS
                if cancel_at_ms is not None and now_ms >= cancel_at_ms:
                    break
                if monotonic_ms() - self._reported_ms >= PROGRESS_MS:
                    self._report(on_progress)
        finally:
            self._stop_all()
        self._report(on_progress)
        if self._failure is not None:
            raise _root_error(self._failure) from None
        return monotonic_ms() - began_ms

    @property
    def _is_stopping(self) -> bool:
        return self.stop_reason is not None or self._failure is not None

    def _start_tasks(self, now_ms: int) -> None:
        for task in self.tasks:
            if self._is_stopping:
                task.start_at_ms = None
            elif task.start_at_ms is not None and task.start_at_ms <= now_ms:
                task.start()

    def _handle_exit(self, task: SlotTask) -> None:
        reason = task.take_exit()
        if reason is None or reason == "finished":
            return
        assert task.error is not None, "only a finished task has no error"
        if reason == "cancelled":
            self.stop_reason = self.stop_reason or "cancelled"
        elif reason == "failed":
            self._failure = self._failure or task.error
        else:
            self.crashes += 1
            self._plan_restart(task)

    def _plan_restart(self, task: SlotTask) -> None:
        pause_ms = RESTART_MS_MAX
        try:
            self._portal.call(self._settlements.update)
        except HeadraceError:
            pass  # an outage of the store, which says nothing about the worker
        else:
            self._count_crash(task)
            pause_ms = backoff(task.crashes, RESTART_MS, RESTART_MS_MAX)
        task.start_at_ms = None if self._is_stopping else monotonic_ms() + pause_ms

    def _count_crash(self, task: SlotTask) -> None:
        if self._settlements.total > self._settled:
            self._settled = self._settlements.total
            for each in self.tasks:
                each.crashes = 0
        task.crashes += 1
        if task.crashes >= FLEET_CRASHES_MAX:
            assert task.error is not None, "a crashed task has an error"
            self._failure = self._failure or _crash_loop(task.crashes, task.error)

    def _request_stop(self) -> None:
        with contextlib.suppress(HeadraceError):  # then Spark ends the workers, and their leases expire
            self._portal.call(lambda store: request_stop(store, self._spec.feed_tenant, self._spec.fleet))

    def _stop_all(self) -> None:
        """Stop all tasks, whatever the reason of the end."""
        was_cancelled = self.stop_reason == "cancelled" or any(task.is_running for task in self.tasks)
        if any(task.is_running for task in self.tasks):
            self._request_stop()
            with contextlib.suppress(Exception):  # the session may be closed
                self._spark.interruptTag(fleet_tag(self._spec.fleet))
            until_ms = monotonic_ms() + int(CANCEL_SECONDS * 1_000)
            while any(task.is_running for task in self.tasks) and monotonic_ms() < until_ms:
                self._task_exit.wait(POLL_SECONDS)
                self._task_exit.clear()
        if was_cancelled:
            # Until then its workers may claim and extend.
            threading.Event().wait(KILL_SECONDS)
        if self._is_stopping or was_cancelled:
            with contextlib.suppress(HeadraceError):
                self._portal.call(lambda store: clear_stop_request(store, self._spec.feed_tenant, self._spec.fleet))

    def _report(self, on_progress: Callable[[FleetProgress], None] | None) -> None:
        if on_progress is None:
            return

        async def read_counts(store: Store) -> Counts:
            await self._settlements.update(store)
            return await total_counts(store, self._queues)

        try:
            counts = self._portal.call(read_counts)
        except HeadraceError:
            return  # the workers wait for the store as well
        events, passed_ms = self._settlements.counts, max(monotonic_ms() - self._reported_ms, 1)
        finished = events["done"] + events["dead"] + events["cancelled"]
        jobs_per_s = (finished - self._finished) * 1_000 / passed_ms
        self._finished, self._reported_ms = finished, monotonic_ms()
        on_progress(
            FleetProgress(
                sum(task.is_running for task in self.tasks),
                self.crashes,
                self._settlements.total,
                events["done"],
                events["dead"],
                jobs_per_s,
                counts.waiting + counts.blocked,
                counts.active,
            )
        )


def _root_error(error: Exception) -> Exception:
    """The Headrace error that Spark has wrapped, else the error itself."""
    return headrace_error(error) or error


def _crash_loop(crashes: int, error: Exception) -> Exception:
    lines = [line.strip() for line in str(_root_error(error)).splitlines() if line.strip()]
    reason = lines[-1] if lines else "nothing"
    return Refused(
        "fleet_crashed",
        f"a worker of the fleet crashed {crashes} times in a row while no job was settled; the last error was:"
        f" {reason[:300]}",
    )
