"""Measures a batch of the history on a standalone cluster with one executor and with two, in turn, and why.

    python -m benchmarks.history_cluster [--events 400000] [--rounds 3] [--json]

An executor has one core. Everything is on this machine: driver, Redis and both executors share its cores with whatever
else runs, and on fewer than four free cores two executors cannot be twice as fast. So CPU seconds are counted beside
the time. The path of a batch is the driver's CPU and that of the busiest executor: as long it takes where each of them
has a core.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.contenders import redis
from benchmarks.history import fill
from benchmarks.spark_filling import on_store
from headrace.pipeline.history.run import follow_history
from headrace.pipeline.spark_session import session
from tests.support.process import wait_until
from tests.support.redis_servers import RedisServer
from tests.support.spark_servers import SparkMaster, SparkWorker

QUEUES = 1_000
WARM = 3
"""Batches before the one that is measured: until then Java compiles."""
EXECUTORS = (1, 2)
PARTS = ("executors", "driver", "its python", "redis", "rest")
TICKS = os.sysconf("SC_CLK_TCK")
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "768m",
    # No task begins before all executors are there.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.liveUpdate.period": "0",
}


class Measured(Struct):
    """A batch on so many executors."""

    executors: int
    wall_s: float
    cpu_s: dict[str, float]
    """CPU seconds of the executors with their Python workers, of the driver's Java, of its Python and the Python that
    Spark starts there, of Redis, and of the rest."""
    busiest_s: float
    """CPU seconds of the executor that has the most."""
    others_cores: float
    """How many cores of the machine others kept busy meanwhile."""
    batch_ms: dict[str, int]
    """Where Spark says that the batch spent its time."""

    @property
    def path_s(self) -> float:
        """CPU seconds that follow each other."""
        return self.cpu_s["driver"] + self.cpu_s["its python"] + self.busiest_s


class Summary(Struct):
    """Both numbers of executors beside each other."""

    faster: float
    """The median over rounds of one executor's time by that of two."""
    by_path: float
    """The same of their paths: what they are where each has a core."""
    by_cores: float
    """How many times as fast two could be with the cores that others have left."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rounds: list[list[Measured]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
        url = redis(stack.enter_context(RedisServer().launch()), "fast").fresh_url()
        on_store(url, lambda store: fill(store, options.events, QUEUES))
        master = stack.enter_context(SparkMaster().launch())
        for _ in EXECUTORS:
            stack.enter_context(SparkWorker(master)).start()
        wait_until(lambda: master.workers() == len(EXECUTORS), "the Workers")
        for turn in range(options.rounds):
            rounds.append([])
            for executors in EXECUTORS:
                spark = session("headrace bench", master.address, **(CONF | {"spark.cores.max": str(executors)}))
                rounds[-1].append(measure(spark, url, folder / f"{turn}-{executors}", options.events, executors))
                spark.stop()
            if not options.json:
                print(*(_line(each) for each in rounds[-1]), sep="\n", flush=True)
    summary = summarize(rounds)
    if options.json:
        print(json.dumps({"rounds": msgspec.to_builtins(rounds), **msgspec.to_builtins(summary)}))
        return
    print(
        f"two are {summary.faster:.2f} times as fast; by their paths {summary.by_path:.2f},"
        f" and with the cores that others left they could be {summary.by_cores:.2f}"
    )


def measure(spark: SparkSession, url: str, folder: Path, events: int, executors: int) -> Measured:
    """Write the history of the same store several times, each time as one batch, and measure the last."""
    for turn in range(WARM):
        write(spark, url, folder / f"warm-{turn}", events)
    before, of_executors_s = _own_s(), _executors_s()
    busy_s, begun = _busy_s(), time.perf_counter()
    query = write(spark, url, folder / "measured", events)
    wall_s, after = time.perf_counter() - begun, _own_s()
    busy_s = _busy_s() - busy_s
    [batch] = [each for each in query.recentProgress if each["numInputRows"]]
    cpu_s = {part: after[part] - before[part] for part in PARTS}
    busiest_s = max(cpu_s - of_executors_s.get(pid, 0.0) for pid, cpu_s in _executors_s().items())
    return Measured(
        executors=executors,
        wall_s=wall_s,
        cpu_s=cpu_s,
        busiest_s=busiest_s,
        others_cores=max(busy_s - sum(cpu_s.values()), 0.0) / wall_s,
        batch_ms=dict(batch["durationMs"]),
    )


def write(spark: SparkSession, url: str, folder: Path, events: int) -> StreamingQuery:
    """The history of a store, as one batch."""
    query = follow_history(spark, url, folder, once=True, events_max=events, consumer=None)
    assert query.awaitTermination(600)
    return query


def summarize(rounds: list[list[Measured]]) -> Summary:
    """What the rounds say, each number of executors beside the other of the same round."""
    cores = os.cpu_count() or 1
    by_cores = [one.wall_s / (sum(two.cpu_s.values()) / max(cores - two.others_cores, 0.1)) for one, two in rounds]
    by_path = statistics.median(one.path_s / two.path_s for one, two in rounds)
    faster = statistics.median(one.wall_s / two.wall_s for one, two in rounds)
    return Summary(faster, by_path, statistics.median(by_cores))


def _line(each: Measured) -> str:
    cpu = ", ".join(f"{part} {cpu_s:.2f}" for part, cpu_s in each.cpu_s.items())
    return (
        f"{each.executors} executors: {each.wall_s:.2f} s; CPU s: {cpu}; path"
        f" {each.path_s:.2f}; others kept {each.others_cores:.2f} cores busy; {each.batch_ms}"
    )


def _own_s() -> dict[str, float]:
    """CPU seconds of this process and of all below it, also of those that have ended, by part."""
    found = dict.fromkeys(PARTS, 0.0)
    below = _below(os.getpid())
    executors = {each for pid in _executors(below) for each in _below(pid)}
    drivers = [pid for pid in below if "pyspark-shell" in _command(pid)]
    python = {os.getpid(), *(each for pid in drivers for each in _below(pid)[1:])}
    for pid in below:
        words = _command(pid)
        if pid in executors:
            part = "executors"
        elif pid in drivers:
            part = "driver"
        elif pid in python:
            part = "its python"
        else:
            part = "redis" if "redis-server" in words else "rest"
        found[part] += _cpu_s(pid)
    return found


def _executors_s() -> dict[int, float]:
    """CPU seconds of each executor and of all below it, by its process."""
    return {pid: sum(map(_cpu_s, _below(pid))) for pid in _executors(_below(os.getpid()))}


def _executors(pids: list[int]) -> list[int]:
    return [pid for pid in pids if "ExecutorBackend" in _command(pid)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _below(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and (fields := _fields(int(path.name))):
            parents.setdefault(int(fields[1]), []).append(int(path.name))
    found = [root]
    for pid in found:
        found.extend(parents.get(pid, []))
    return found


def _cpu_s(pid: int) -> float:
    fields = _fields(pid)
    return sum(map(int, fields[11:15])) / TICKS if fields else 0.0


def _fields(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _busy_s() -> float:
    """CPU seconds that anybody has used on this machine: all but idle and waiting for disks."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:8])
    return (user + nice + system + sum(interrupts)) / TICKS


if __name__ == "__main__":
    main()
