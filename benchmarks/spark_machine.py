"""What Spark itself costs: seconds until it answers, and the memory of Java and of its Python workers."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.pipeline.spark_session import SHORT_RUN, session


def start(quick: bool) -> tuple[SparkSession, dict[str, float]]:
    """Start Spark on one thread, as a program does that has just begun; the seconds of each step."""
    found: dict[str, float] = {}

    def timed(what: str, act: Callable[[], object]) -> None:
        begun = time.perf_counter()
        act()
        found[what] = time.perf_counter() - begun

    spark: list[SparkSession] = []
    # Java compiles for a run of seconds, or for one of minutes.
    timed("session", lambda: spark.append(session("headrace bench", "local[1]", **(SHORT_RUN if quick else {}))))
    timed("first query", lambda: spark[0].range(1_000).selectExpr("sum(id)").collect())
    timed("first Python worker", lambda: spark[0].range(10).mapInArrow(same, "id long").collect())
    return spark[0], found


def on_threads(threads: int) -> SparkSession:
    """The session anew with so many threads, in the same Java."""
    stop()
    return session("headrace bench", f"local[{threads}]")


def same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a Python worker does that has nothing to do."""
    yield from batches


def stop() -> None:
    """End the session that runs, if one does."""
    running = SparkSession.getActiveSession()
    if running is not None:
        running.stop()


class Memory:
    """The most memory that Java and the Python workers were seen to hold, in MB."""

    def __init__(self) -> None:
        self._java = self._worker = self._together = 0.0

    def look(self) -> None:
        """Take what the system says of each process up to now; workers go when they have been idle for a while."""
        together = 0.0
        for pid in _children(os.getpid()):
            if _name(pid) == "java":
                self._java = max(self._java, _mb(pid, "status", "VmHWM"))
                for worker in _children(pid):
                    self._worker = max(self._worker, _mb(worker, "status", "VmHWM"))
                    # Each is a fork of the same process: what they share is counted once.
                    together += _mb(worker, "smaps_rollup", "Pss")
        self._together = max(self._together, together)

    def found(self) -> dict[str, float]:
        """Peaks of resident memory."""
        return {
            "Java": self._java,
            "largest Python worker": self._worker,
            "all Python workers": self._together,
        }


def _children(pid: int) -> list[int]:
    """All processes that descend from one, nearest first."""
    found: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in tasks.read_text().split()]
        except OSError:  # it has just ended
            continue
    return found + [each for child in found for each in _children(child)]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _mb(pid: int, file: str, field: str) -> float:
    """A field of what the system tells of a process, which may have just ended."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1_024 for line in lines if line.startswith(f"{field}:")), 0.0)
