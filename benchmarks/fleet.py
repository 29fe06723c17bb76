"""Measures a fleet: jobs a second that do nothing, on two executors of Spark beside two worker processes, in turns.

python -m benchmarks.fleet [--quick] [--json] [--jobs 120000] [--rounds 3]
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pyspark
from pyspark.sql import SparkSession

from benchmarks.costs import fill
from benchmarks.load import QUEUE
from benchmarks.spark_machine import stop
from headrace.pipeline.flows.fleet.run import run_fleet
from headrace.pipeline.spark_session import session
from headrace.stores.open import open_store
from tests.support.redis_servers import RedisServer

MASTERS = ("local[2]", "local-cluster[2,1,1024]")
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
WORKERS = 2
CAPACITY = 1_000
Figures = dict[str, dict[str, float]]
Say = Callable[[str], None]


async def filled(url: str, jobs: int) -> None:
    """A queue with so many jobs."""
    store = await open_store(url)
    await fill(store, jobs, 1)
    await store.close()


async def rate(url: str, jobs: int) -> float:
    """Jobs a second from the first claim to the last end, by the journal; none may be missing, or done twice."""
    store = await open_store(url)
    claimed_at_ms, done_at_ms, done = 0, 0, 0
    for shard in QUEUE.all_shards():
        after, upto = 0, (await store.journal.bounds(shard)).last_seq
        while after < upto:
            entries = await store.journal.read(shard, after, upto)
            for entry in entries:
                events = [event.line.event for event in entry.events(shard)]
                done += events.count("done")
                claimed_at_ms = claimed_at_ms or ("claimed" in events and entry.at_ms)
                done_at_ms = entry.at_ms if "done" in events else done_at_ms
            after = entries[-1].last_seq
    await store.close()
    assert done == jobs, f"{done:,} of {jobs:,} jobs were done"
    return jobs / max(done_at_ms - claimed_at_ms, 1) * 1_000


async def plain(url: str) -> None:
    """Two worker processes work off what is due."""
    words = [sys.executable, "-m", "benchmarks.working", url, "drain", str(CAPACITY)]
    children = [await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE) for _ in range(WORKERS)]
    for child in children:
        await child.communicate()


def fleet(spark: SparkSession, url: str) -> None:
    """Two executors do the same."""
    run_fleet(spark, "benchmarks.fleet_app:app", url=url, workers=WORKERS, queues=[QUEUE], capacity=CAPACITY)


def timed(act: Callable[[], object]) -> float:
    """Seconds of a call."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def measure(server: RedisServer, master: str, jobs: int, rounds: int, say: Say) -> dict[str, float]:
    """In turns: plain workers, then a fleet; medians of the rounds."""
    started: list[SparkSession] = []
    start_s = timed(lambda: started.append(session("headrace bench", master, **LOOPBACK)))
    rates: dict[str, list[float]] = {"plain": [], "fleet": [], "plain call": [], "fleet call": []}
    acts: dict[str, Callable[[str], object]] = {
        "plain": lambda url: asyncio.run(plain(url)),
        "fleet": lambda url: fleet(started[0], url),
    }
    for number in range(rounds + 1):
        for who, act in acts.items():
            server.ask("FLUSHALL")
            url = f"{server.url}?profile=fast"
            # The first round is short and does not count: Java and Python workers are as they will be.
            asyncio.run(filled(url, jobs if number else min(jobs, 1_000)))
            took_s = timed(lambda act=act, url=url: act(url))  # type: ignore[misc]  # bound in each turn
            pace = asyncio.run(rate(url, jobs if number else min(jobs, 1_000)))
            if number:
                say(f"{master}: round {number}: {who} {pace:,.0f} jobs/s, the call took {took_s:.1f} s")
                rates[who].append(pace)
                rates[f"{who} call"].append(jobs / took_s)
    stop()
    middle = {name: median(each) for name, each in rates.items()}
    return {
        "plain_per_second": middle["plain"],
        "fleet_per_second": middle["fleet"],
        "share": middle["fleet"] / middle["plain"],
        "plain_call_per_second": middle["plain call"],
        "fleet_call_per_second": middle["fleet call"],
        "fleet_with_start_per_second": jobs / (start_s + jobs / middle["fleet call"]),
        "start_s": start_s,
    }


@contextmanager
def spark_home() -> Iterator[None]:
    """Executors are started from SPARK_HOME and work in a folder of it, which must not be the installed package."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        for part in Path(pyspark.__file__).parent.iterdir():
            (Path(folder) / part.name).symlink_to(part)
        os.environ["SPARK_HOME"] = folder
        yield


def show(figures: Figures, jobs: int) -> None:
    """Print the figures as a table."""
    print(f"\n{jobs:,} jobs that do nothing, on redis (fast): two executors beside two worker processes, jobs/s\n")
    names = ("workers", "fleet", "share", "workers, call", "fleet, call", "with start")
    print(f"{'':<26}" + "".join(f"{name:>15}" for name in names))
    for master, found in figures.items():
        cells = (
            f"{found['plain_per_second']:,.0f}",
            f"{found['fleet_per_second']:,.0f}",
            f"{found['share']:.0%}",
            f"{found['plain_call_per_second']:,.0f}",
            f"{found['fleet_call_per_second']:,.0f}",
            f"{found['fleet_with_start_per_second']:,.0f}",
        )
        print(f"{master:<26}" + "".join(f"{cell:>15}" for cell in cells))
    print("\ncall: the whole call, with the start of its processes or tasks; with start: with the session's, too")


def main() -> None:
    """Measure, and print the figures for people or for programs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="2,000 jobs, one round")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--jobs", type=int, default=120_000, help="in each round (default 120,000)")
    parser.add_argument("--rounds", type=int, default=3, help="(default 3)")
    parser.add_argument("--masters", nargs="*", default=MASTERS, help=f"of Spark (default {' '.join(MASTERS)})")
    options = parser.parse_args()
    jobs, rounds = (2_000, 1) if options.quick else (options.jobs, options.rounds)

    def say(text: str) -> None:
        if not options.json:
            print(f"  {text}", flush=True)

    with RedisServer() as server, spark_home():
        server.launch()
        figures = {master: measure(server, master, jobs, rounds, say) for master in options.masters}
    if options.json:
        print(json.dumps(figures))
    else:
        show(figures, jobs)


if __name__ == "__main__":
    main()
