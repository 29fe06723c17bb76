"""Measures the Spark data source: how long Spark takes to start and what it holds; journals read beside a bare
fetch-and-parse, one long and many short ones; jobs written beside the client's own way to send many.

    python -m benchmarks.spark [--quick] [--json] [--stores redis,sqlite] [--events 1000000] [--rows 1000000]
"""

import argparse
import json
from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.contenders import Contender, contenders
from benchmarks.running import Say
from benchmarks.spark_filling import fill_journal, fill_queues, on_store
from benchmarks.spark_machine import Memory, on_threads, start, stop
from benchmarks.spark_reading import bare_rate, queues_s, read_rate
from benchmarks.spark_writing import client_rate, write_rates

STORES = "redis fast,postgres durable,sqlite fast"
THREADS = (1, 2)


class Size(NamedTuple):
    """How much is done."""

    events: int = 1_000_000
    rows: int = 1_000_000
    queues: int = 1_000
    rounds: int = 3


class Figures(NamedTuple):
    """Everything that is measured, by store."""

    start_s: dict[str, float]
    peak_mb: dict[str, float]
    read_rows_per_second: dict[str, dict[str, float]]
    queues_s: dict[str, dict[str, float]]
    write_rows_per_second: dict[str, dict[str, float]]


class Filled(NamedTuple):
    """A store with journals to read."""

    name: str
    url: str
    events: int
    many: int


def fill(place: Contender, size: Size, say: Say) -> Filled:
    """Write the journals that are read later."""
    url = place.fresh_url()
    say(f"{place.name}: filling a journal with {size.events:,} events")
    events = on_store(url, lambda store: fill_journal(store, size.events))
    say(f"{place.name}: filling {size.queues:,} short ones")
    return Filled(place.name, url, events, on_store(url, lambda store: fill_queues(store, size.queues)))


def measure(places: list[Contender], quick: bool, size: Size, say: Say) -> Figures:
    """Everything, one after the other."""
    memory = Memory()
    _, start_s = start(quick)
    say(f"Spark has started: {', '.join(f'{what} {seconds:.1f} s' for what, seconds in start_s.items())}")
    memory.look()
    filled = [fill(place, size, say) for place in places]
    reads: dict[str, dict[str, float]] = {store.name: {} for store in filled}
    many: dict[str, dict[str, float]] = {store.name: {} for store in filled}
    writes: dict[str, dict[str, float]] = {store.name: {} for store in filled}
    for store in filled:
        say(f"{store.name}: reading {store.events:,} events, bare")
        reads[store.name]["bare"] = bare_rate(store.url, store.events, size.rounds, say)
        say(f"{store.name}: sending {size.rows:,} jobs")
        writes[store.name]["client"] = client_rate(store.url, size.rows, say)
    for threads in THREADS:
        spark = on_threads(threads)
        for store in filled:
            say(f"{store.name}: reading {store.events:,} events, {threads} at once")
            reads[store.name][f"{threads} at once"] = read_rate(
                spark, store.url, store.events, threads, size.rounds, say
            )
            many[store.name][f"{threads} at once"] = queues_s(spark, store.url, store.many, threads)
            memory.look()
            say(f"{store.name}: writing {size.rows:,} jobs, {threads} at once")
            found = write_rates(spark, store.url, size.rows, threads, say)
            writes[store.name] |= {f"{threads} at once": found["first"], f"{threads} at once, again": found["again"]}
            memory.look()
    stop()
    return Figures(start_s, memory.found(), reads, many, writes)


def show(figures: Figures, size: Size) -> None:
    """Print everything, with shares of the reference in the same run."""
    print("\nSpark itself\n")
    for what, seconds in figures.start_s.items():
        print(f"{what:<46}{seconds:>12.1f} s")
    for what, peak_mb in figures.peak_mb.items():
        print(f"{'peak memory, ' + what:<46}{peak_mb:>12,.0f} MB")
    title = f"rows/s of a journal of {size.events:,} events, beside the bare fetch-and-parse in one process"
    _show_rates(title, figures.read_rows_per_second, "bare")
    print(f"\nseconds to read {size.queues:,} queues with 20 events each\n")
    for name, found in figures.queues_s.items():
        for what, seconds in found.items():
            print(f"{name:<22}{what:<24}{seconds:>12.1f}")
    title = f"rows/s of writing {size.rows:,} jobs with keys, beside the client's enqueue_many"
    _show_rates(title, figures.write_rows_per_second, "client")


def _show_rates(title: str, figures: Mapping[str, Mapping[str, float]], reference: str) -> None:
    print(f"\n{title}\n")
    for name, found in figures.items():
        for what, rate in found.items():
            share = "" if what == reference else f"{rate / found[reference]:>8.0%}"
            print(f"{name:<22}{what:<24}{rate:>12,.0f}{share}")


def main() -> None:
    """Measure what was asked for, and print the figures for people or for programs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few thousand events and rows, one round")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument("--stores", default=STORES, help="only stores whose names start so, separated by commas")
    parser.add_argument("--events", type=int, help="of the long journal (default 1,000,000)")
    parser.add_argument("--rows", type=int, help="that are written (default 1,000,000)")
    options = parser.parse_args()
    size = Size(events=3_000, rows=2_000, queues=50, rounds=1) if options.quick else Size()
    size = size._replace(events=options.events or size.events, rows=options.rows or size.rows)

    def say(text: str) -> None:
        if not options.json:
            print(f"  {text}", flush=True)

    wanted = tuple(options.stores.split(","))
    with contenders() as places:
        chosen = [place for place in places if place.name.startswith(wanted) and place.name in STORES.split(",")]
        figures = measure(chosen, options.quick, size, say)
    if options.json:
        print(json.dumps(figures._asdict()))
    else:
        show(figures, size)


if __name__ == "__main__":
    main()
