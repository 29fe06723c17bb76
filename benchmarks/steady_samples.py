"""What is sampled while a store is at work, and whether it stays as it is: lag, latency, memory and processor time."""

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, linear_regression

from msgspec import Struct

from benchmarks.spark_machine import _children, _mb, _name

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
LAG_GROWTH_S_MAX = 2.0
"""In the second half a lag may seem to grow by so many seconds of events: batches begin when they begin."""
LAG_S_MAX = 10.0
"""Beyond the time between two batches."""
LATENCY_MS_MAX = 5_000
MEMORY_GROWTH_MAX = 1.1
RATE_MIN = 0.95


class Sample(Struct):
    """How things stood at an instant."""

    at_s: float
    events: int
    """In all journals, since the beginning."""
    history_behind: int
    """Events that are in the journals and not in the history."""
    stats_behind: int
    latency_ms: list[float]
    """Of the probes that were counted since the last sample."""
    java_mb: float
    workers_mb: float
    driver_mb: float
    cores: float
    """Of Java, the driver and the Python workers together, since the last sample."""

    @property
    def memory_mb(self) -> float:
        """Of everything that belongs to Spark."""
        return self.java_mb + self.workers_mb + self.driver_mb


class Decision(Struct):
    """What the samples come to, and what of it is not as it should be."""

    events: int
    events_per_second: float
    history_behind_s_max: float
    """In the second half, as seconds of events."""
    history_growth_s: float
    """Over the second half, by a straight line through it."""
    stats_behind_s_max: float
    stats_growth_s: float
    latency_p50_ms: float
    latency_p95_ms: float
    memory_mb: float
    memory_growth: float
    """The last quarter beside the third one."""
    cores: float
    complaints: list[str]


class Machine:
    """Memory and processor time of this process, of Java below it, and of Spark's Python workers below that."""

    def __init__(self) -> None:
        self._ticks: dict[int, int] = {}

    def look(self, seconds: float) -> dict[str, float]:
        """What each part holds in MB, and how many cores were busy in the seconds since the last look."""
        here = os.getpid()
        java = [pid for pid in _children(here) if _name(pid) == "java"]
        workers = [pid for each in java for pid in _children(each)]
        ticks = {pid: found for pid in (here, *java, *workers) if (found := _ticks(pid))}
        spent = sum(found - self._ticks.get(pid, 0) for pid, found in ticks.items())
        is_first, self._ticks = not self._ticks, ticks
        return {
            "java_mb": sum(_mb(pid, "status", "VmRSS") for pid in java),
            # Each is a fork of the same process: what they share is counted once.
            "workers_mb": sum(_mb(pid, "smaps_rollup", "Pss") for pid in workers),
            "driver_mb": _mb(here, "status", "VmRSS"),
            "cores": 0.0 if is_first else max(spent / CLOCK_TICKS / seconds, 0.0),
        }


def _ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def judge(samples: Sequence[Sample], rate: int, history_every_ms: int, stats_every_ms: int) -> Decision:
    """The figures of a run, and whether it was steady."""
    half, last = samples[len(samples) // 2 :], samples[len(samples) * 3 // 4 :]
    third = samples[len(samples) // 2 : len(samples) * 3 // 4] or half
    seconds = samples[-1].at_s - samples[0].at_s
    latencies = sorted(each for sample in half for each in sample.latency_ms)
    history = [each.history_behind / rate for each in half]
    stats = [each.stats_behind / rate for each in half]
    found = Decision(
        events=samples[-1].events,
        events_per_second=(samples[-1].events - samples[0].events) / seconds,
        history_behind_s_max=max(history),
        history_growth_s=_growth(half, history),
        stats_behind_s_max=max(stats),
        stats_growth_s=_growth(half, stats),
        latency_p50_ms=_rank(latencies, 0.5),
        latency_p95_ms=_rank(latencies, 0.95),
        memory_mb=max(each.memory_mb for each in samples),
        memory_growth=fmean(each.memory_mb for each in last) / fmean(each.memory_mb for each in third),
        cores=fmean(each.cores for each in half),
        complaints=[],
    )
    limits = [
        ("events a second", -found.events_per_second, -rate * RATE_MIN),
        ("history's lag (s)", found.history_behind_s_max, history_every_ms / 1000 + LAG_S_MAX),
        ("growth of history's lag (s)", found.history_growth_s, LAG_GROWTH_S_MAX + history_every_ms / 1000),
        ("statistics' lag (s)", found.stats_behind_s_max, stats_every_ms / 1000 + LAG_S_MAX),
        ("growth of statistics' lag (s)", found.stats_growth_s, LAG_GROWTH_S_MAX + stats_every_ms / 1000),
        ("latency p50 (ms)", found.latency_p50_ms, LATENCY_MS_MAX),
        ("memory of the last quarter beside the third", found.memory_growth, MEMORY_GROWTH_MAX),
    ]
    found.complaints = [
        f"{what} is {abs(value):,.2f}, and the limit is {abs(limit):,.2f}"
        for what, value, limit in limits
        if not value <= limit
    ]
    return found


def _growth(samples: Sequence[Sample], values: Sequence[float]) -> float:
    """By how much a straight line through the values rises."""
    times = [each.at_s for each in samples]
    if len(times) < 2:
        return 0.0
    return linear_regression(times, values).slope * (times[-1] - times[0])


def _rank(ordered: Sequence[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else float("nan")
