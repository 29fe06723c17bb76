"""Lets history and statistics follow a store that is at work for minutes, in one Spark: do they keep up, and does their
memory stay flat?

    python -m benchmarks.spark_steady [--store redis] [--rate 2000] [--minutes 5] [--json]

A process of its own makes so many journal events a second (benchmarks/steady_load.py). Every few seconds a line says
how things stand. Ends with 1 when something is not as it should be.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
from msgspec import Struct, to_builtins
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.running import Say
from benchmarks.steady_load import PROBE, QUEUES
from benchmarks.steady_places import load, place
from benchmarks.steady_samples import Decision, Machine, Sample, judge
from headrace.pipeline.history.run import follow_history
from headrace.pipeline.spark_session import session
from headrace.pipeline.stats.run import follow_stats
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store

HISTORY_EVERY_MS = 10_000
STATS_EVERY_MS = 2_000
DRAIN_S = 90
HEAD = f"{'s':>5} {'events':>10} {'events/s':>9} {'history':>9} {'stats':>7} {'p50 ms':>7} {'p95 ms':>7}"
HEAD += f" {'Java MB':>8} {'workers':>8} {'driver':>7} {'cores':>6}"


class Options(Struct):
    """What was asked for."""

    store: str
    rate: int
    seconds: float
    every_s: float
    json: bool


class Steady(Struct):
    """What a run found."""

    store: str
    rate: int
    samples: list[Sample]
    decision: Decision
    history_rows: int
    """In the files at the end, each event once."""
    stats_enqueued: int
    """Enqueued jobs by the statistics, which the history must have as many of."""
    history_enqueued: int


async def heads(store: Store) -> dict[str, int]:
    """The last seq of each journal."""
    shards = [shard for queues in (*QUEUES.values(), [PROBE]) for queue in queues for shard in queue.all_shards()]
    return {
        str(shard): bounds.last_seq
        for shard, bounds in zip(shards, await store.journal.all_bounds(shards), strict=True)
    }


def behind(query: StreamingQuery, ends: dict[str, int]) -> int:
    """How many events of the journals a query has not worked off."""
    if (error := query.exception()) is not None:
        raise RuntimeError(f"the query {query.name} has failed: {error}")
    progress: Any = query.lastProgress
    offset = json.loads(progress["sources"][0]["endOffset"] or "{}") if progress else {}
    read = {name: mark[1] for name, mark in offset.get("shards", {}).items()}
    return sum(max(end - read.get(name, 0), 0) for name, end in ends.items())


class Watch:
    """Takes samples of two queries on a store."""

    def __init__(self, store: Store, history: StreamingQuery, stats: StreamingQuery, latencies: list[float]) -> None:
        self._store = store
        self._queries = (history, stats)
        self._latencies = latencies
        self._machine = Machine()
        self._begun = self._last = time.monotonic()
        self._told = 0
        self.samples: list[Sample] = []

    def begin(self) -> None:
        """Forget what was before: Java and the workers have started now, and what had piled up is done."""
        self._begun = self._last = time.monotonic()
        self._told = len(self._latencies)

    async def sample(self) -> Sample:
        """How things stand."""
        ends, now = await heads(self._store), time.monotonic()
        history, stats = (behind(query, ends) for query in self._queries)
        latencies = self._latencies[self._told :]
        self._told += len(latencies)
        machine = self._machine.look(now - self._last)
        self._last = now
        found = Sample(now - self._begun, sum(ends.values()), history, stats, latencies, **machine)
        self.samples.append(found)
        return found

    async def until_drained(self) -> None:
        """Wait until both have everything that is there now."""
        ends = await heads(self._store)
        async with asyncio.timeout(DRAIN_S):
            while any(behind(query, ends) > 0 for query in self._queries):  # noqa: ASYNC110 - Spark tells nobody
                await asyncio.sleep(0.2)


def line_of(sample: Sample, before: Sample | None) -> str:
    """A sample as people read it."""
    rate = (sample.events - before.events) / (sample.at_s - before.at_s) if before else 0.0
    ordered = sorted(sample.latency_ms)
    p50, p95 = (ordered[int(len(ordered) * share)] if ordered else 0.0 for share in (0.5, 0.95))
    return (
        f"{sample.at_s:>5.0f} {sample.events:>10,} {rate:>9,.0f} {sample.history_behind:>9,} {sample.stats_behind:>7,}"
        f" {p50:>7,.0f} {p95:>7,.0f} {sample.java_mb:>8,.0f} {sample.workers_mb:>8,.0f} {sample.driver_mb:>7,.0f}"
        f" {sample.cores:>6.2f}"
    )


async def follow(url: str, folder: Path, options: Options, say: Say) -> Steady:
    """Start everything, sample while it runs, let it drain, and count."""
    # A run of minutes: Java compiles well.
    spark = session("headrace steady", "local[2]")
    store = await open_store(url)
    try:
        latencies: list[float] = []
        async with load(url, options.rate, latencies):
            history = follow_history(spark, url, folder / "history", every_ms=HISTORY_EVERY_MS)
            stats = follow_stats(spark, url, folder / "stats", every_ms=STATS_EVERY_MS)
            watch = Watch(store, history, stats, latencies)
            say("waiting until both have begun")
            await watch.until_drained()
            watch.begin()
            say(HEAD)
            end = time.monotonic() + options.seconds
            while time.monotonic() < end:
                before = watch.samples[-1] if watch.samples else None
                say(line_of(await watch.sample(), before))
                await asyncio.sleep(options.every_s)
        await watch.until_drained()
        events = sum((await heads(store)).values())
        history.stop()
        stats.stop()
    finally:
        await store.close()
        spark.stop()
    decision = judge(watch.samples, options.rate, HISTORY_EVERY_MS, STATS_EVERY_MS)
    decision.events = events
    return counted(folder, Steady(options.store, options.rate, watch.samples, decision, 0, 0, 0))


def counted(folder: Path, found: Steady) -> Steady:
    """Count what is in the files, and complain if history and statistics are not the same."""
    with duckdb.connect() as connection:

        def ask(what: str, files: str) -> int:
            [(answer,)] = connection.sql(f"SELECT {what} FROM '{folder}/{files}'").fetchall()  # noqa: S608 - our own
            return int(answer or 0)

        found.history_rows = ask("count(*)", "history/day=*/*.parquet")
        found.history_enqueued = ask("count_if(event = 'enqueued')", "history/day=*/*.parquet")
        found.stats_enqueued = ask("sum(enqueued)", "stats/day=*/*.parquet")
    if found.history_rows != found.decision.events:
        found.decision.complaints.append(
            f"the history has {found.history_rows:,} rows, and the journals {found.decision.events:,} events"
        )
    if found.stats_enqueued != found.history_enqueued:
        found.decision.complaints.append(
            f"the statistics have {found.stats_enqueued:,} enqueued jobs, and the history {found.history_enqueued:,}"
        )
    return found


def show(found: Steady) -> None:
    """Print the decision."""
    decision = found.decision
    print(f"\n{found.store}, {found.rate:,} events/s asked for: {decision.events:,} events in the end\n")
    print(f"events a second                {decision.events_per_second:>12,.0f}")
    for name, most, growth in (
        ("history", decision.history_behind_s_max, decision.history_growth_s),
        ("statistics", decision.stats_behind_s_max, decision.stats_growth_s),
    ):
        print(f"{name + ' behind, at most':<31}{most:>12.1f} s of events, growth over the second half {growth:+.1f} s")
    print(
        f"event to feed                  {decision.latency_p50_ms:>12,.0f} ms p50, {decision.latency_p95_ms:,.0f} p95"
    )
    print(f"memory                         {decision.memory_mb:>12,.0f} MB, growth {decision.memory_growth - 1:+.1%}")
    print(f"cores                          {decision.cores:>12.2f}")
    print(f"rows in the history            {found.history_rows:>12,}")
    print("\n".join(f"NOT STEADY: {complaint}" for complaint in decision.complaints) or "steady")


def main() -> int:
    """Run, and print figures for people or for programs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default="redis", choices=("redis", "postgres", "sqlite"))
    parser.add_argument("--rate", type=int, default=2_000, help="events a second (default 2,000)")
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (default 5)")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between samples (default 5)")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    given = parser.parse_args()
    options = Options(given.store, given.rate, given.minutes * 60, given.every, given.json)

    def say(text: str) -> None:
        if not options.json:
            print(text, flush=True)

    with tempfile.TemporaryDirectory(prefix="headrace-steady-") as folder, place(options.store, Path(folder)) as url:
        found = asyncio.run(follow(url, Path(folder), options, say))
    if options.json:
        print(json.dumps(to_builtins(found)))
    else:
        show(found)
    return 1 if found.decision.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
