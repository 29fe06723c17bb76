"""Measures how the cost of tables grows with the history: a first run, a run with nothing new, and one with a day more.

    python -m benchmarks.growth [--days 2 10 23 100] [--folder DIR]

Events are made by numpy and written straight into a history: 100,000 a day within four and a half hours, of
33 queues of three tenants with two kinds each.
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.event_source import Events, events
from headrace.pipeline.history.table import APP, HistoryState, history_table
from headrace.pipeline.report.report import write_report
from headrace.pipeline.source.schema import JOURNAL
from headrace.pipeline.spark_session import session
from headrace.pipeline.stats.run import write_stats
from headrace.pipeline.storage.write import write_sorted
from headrace.pipeline.tables.write import write_errors, write_jobs, write_usage

EVENTS_A_DAY = 100_000
DAY_MS = 86_400_000
START_MS = 1_790_000_000_000 // DAY_MS * DAY_MS
QUEUES = [(tenant, f"queue{number:02}") for tenant in ("acme", "birch", "cedar") for number in range(11)]
KINDS = np.array([f"kind{number}" for number in range(22)])
BUSY_MS = (8 * 3_600_000, 12 * 3_600_000 + 1_800_000)
"""The hours of a day in which jobs come."""
_TICKS_S = os.sysconf("SC_CLK_TCK")


def day_of_events(number: int, first_seqs: np.ndarray) -> pa.Table:
    """The events of a day: jobs that are enqueued, claimed and done; one in ten fails once, one in a hundred dies."""
    chance = np.random.default_rng(number)
    jobs = EVENTS_A_DAY * 100 // 321
    enqueued_ms = np.sort(chance.integers(*BUSY_MS, jobs)) + START_MS + number * DAY_MS
    queue = chance.integers(0, len(QUEUES), jobs)
    kind = (2 * queue + chance.integers(0, 2, jobs)) % len(KINDS)
    wait_ms = chance.lognormal(6, 1.2, jobs).astype(np.int64)
    run_ms = chance.lognormal(5, 1.0, jobs).astype(np.int64)
    fails, dies = chance.random(jobs) < 0.1, chance.random(jobs) < 0.01
    claimed_ms = enqueued_ms + wait_ms
    parts = [_part("enqueued", enqueued_ms, np.arange(jobs)), _part("claimed", claimed_ms, np.arange(jobs))]
    failed = np.flatnonzero(fails)
    parts += [
        _part("retried", claimed_ms[failed] + run_ms[failed], failed),
        _part("claimed", claimed_ms[failed] + run_ms[failed] + 5_000, failed),
    ]
    end_ms = claimed_ms + run_ms + np.where(fails, run_ms + 5_000, 0)
    parts += [_part("dead", end_ms[dies], np.flatnonzero(dies)), _part("done", end_ms[~dies], np.flatnonzero(~dies))]
    name, at_ms, job = (np.concatenate([part[column] for part in parts]) for column in range(3))
    order = np.lexsort((at_ms, queue[job]))
    name, at_ms, job = name[order], at_ms[order], job[order]
    of_queue = queue[job]
    counts = np.bincount(of_queue, minlength=len(QUEUES))
    seq = np.concatenate([np.arange(count) + first_seqs[index] for index, count in enumerate(counts)])
    first_seqs += counts
    return _table(number, name, at_ms, job, seq, of_queue, kind[job], wait_ms[job], run_ms[job], enqueued_ms[job])


def _part(name: str, at_ms: np.ndarray, job: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.full(len(job), name), at_ms, job


def _table(
    number: int,
    name: np.ndarray,
    at_ms: np.ndarray,
    job: np.ndarray,
    seq: np.ndarray,
    queue: np.ndarray,
    kind: np.ndarray,
    wait_ms: np.ndarray,
    run_ms: np.ndarray,
    enqueued_ms: np.ndarray,
) -> pa.Table:
    fails = np.isin(name, ["retried", "dead"])
    ends = fails | (name == "done")
    is_new = name == "enqueued"
    head = [f"{ms >> 16:08x}-{ms & 0xFFFF:04x}" for ms in enqueued_ms.tolist()]
    columns = {
        "tenant": [QUEUES[index][0] for index in queue],
        "queue": [QUEUES[index][1] for index in queue],
        "shard": np.zeros(len(job), np.int32),
        "epoch": np.ones(len(job), np.int64),
        "seq": seq,
        "happened_at": at_ms * 1_000,
        "event": name,
        "id": [f"{start}-7{n & 0xFFF:03x}-8000-{n:012x}" for start, n in zip(head, job.tolist(), strict=True)],
        "kind": KINDS[kind],
        "priority": _where(is_new, np.full(len(job), 5)),
        "attempts": _where(ends, np.ones(len(job), np.int64)),
        "fence": _where(~is_new, seq),
        "worker": _where(name == "claimed", np.full(len(job), "worker-1")),
        "wait_ms": _where(ends, wait_ms),
        "run_ms": _where(ends, run_ms),
        "reason": _where(name == "dead", np.full(len(job), "attempts")),
        "error_class": _where(fails, np.full(len(job), "TimeoutError")),
        "error_message": _where(fails, np.array([f"no answer from 10.0.0.{n % 250}:80 for order {n}" for n in job])),
        "payload_bytes": _where(is_new, np.full(len(job), 300)),
    }
    schema = JOURNAL.arrow
    arrays = [
        pa.array(columns[field.name]).cast(field.type) if field.name in columns else pa.nulls(len(job), field.type)
        for field in schema
    ]
    day = np.datetime64(START_MS + number * DAY_MS, "ms").astype("datetime64[D]")
    rows = pa.table(arrays, schema=schema).append_column("day", pa.array(np.full(len(job), day)))
    return rows.append_column("batch", pa.array(np.full(len(job), number)))


def _where(is_there: np.ndarray, values: np.ndarray) -> pa.Array:
    return pa.array(values, mask=~is_there)


class Growing:
    """A history that gets a day with each batch."""

    def __init__(self, data_dir: DataDir) -> None:
        self._table = history_table(data_dir.history)
        self._table.prepare()
        self._seqs = np.ones(len(QUEUES), np.int64)
        self.days = self.events = 0

    def grow(self, days: int) -> None:
        """Add days until there are so many."""
        while self.days < days:
            rows = day_of_events(self.days, self._seqs)
            self.events += rows.num_rows
            rows = rows.select(self._table.layout.schema.names).sort_by("day")
            files = list(write_sorted(iter([rows]), self._table.layout, self._table.write_location, "history"))
            state = HistoryState(batch=self.days, events=self.events)
            self._table.commit(files, batch=(APP, self.days), state=msgspec.to_builtins(state))
            self.days += 1


def cpu_s() -> float:
    """Of this process and all below it, those that have ended included."""
    stats = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        stats[int(folder.name)] = int(fields[1]), sum(int(field) for field in fields[11:15])
    total, found = 0, {os.getpid()}
    for pid in sorted(stats):
        if pid == os.getpid() or stats[pid][0] in found:
            found.add(pid)
            total += stats[pid][1]
    return total / _TICKS_S


def steps_of(spark: SparkSession, data_dir: DataDir) -> dict[str, Callable[[], object]]:
    """What is measured, by its name."""

    def every() -> Events:
        return events(spark, None, data_dir, origin="history")

    return {
        "jobs and attempts": lambda: write_jobs(spark, every(), data_dir),
        "errors": lambda: write_errors(spark, every(), data_dir),
        "usage": lambda: write_usage(spark, every(), data_dir),
        "statistics": lambda: write_stats(spark, every(), data_dir.table("stats")),
        "report": lambda: write_report(spark, data_dir),
    }


def main() -> None:
    """Print a line of JSON for each step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=int, nargs="+", default=[2, 10, 23, 100])
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="headrace-growth-"))
    spark = session("headrace growth", "local[2]")
    data_dir = DataDir(folder)
    growing = Growing(data_dir)
    for days in asked.days:
        for what, upto in (("first", days - 1), ("nothing new", days - 1), ("a day more", days)):
            growing.grow(upto)
            if what == "first":
                for name in ("jobs", "attempts", "generations", "errors", "usage", "stats"):
                    shutil.rmtree(data_dir.table(name), ignore_errors=True)
            for name, step in steps_of(spark, data_dir).items():
                begun, used = time.monotonic(), cpu_s()
                step()
                row = {"days": days, "events": growing.events, "run": what, "step": name}
                print(
                    json.dumps(row | {"cpu_s": round(cpu_s() - used, 2), "s": round(time.monotonic() - begun, 2)}),
                    flush=True,
                )
    spark.stop()


if __name__ == "__main__":
    main()
