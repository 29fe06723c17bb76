"""Measures the stores: jobs/s of enqueue, claim and settle by batch size, each beside what its server could do at most;
what claims cost while the backlog grows; Redis's own CPU and memory; and how fast an idle worker wakes up.

    python -m benchmarks.stores [--quick] [--json] [--stores memory,redis]
"""

import gc
from functools import partial
from statistics import median
from typing import NamedTuple

from benchmarks.contenders import Contender
from benchmarks.costs import claim_cost, cpu_s, memory_cost, wake_up
from benchmarks.load import BATCHES, OPERATIONS, Meter, jobs_of, measure_raw, measure_store
from benchmarks.running import Say, run
from benchmarks.tables import show_costs, show_cpu, show_rates
from headrace.stores.open import open_store

ByBatch = dict[str, dict[int, dict[str, float]]]
Rounds = dict[str, dict[int, list[dict[str, float]]]]


class Figures(NamedTuple):
    """Everything that is measured, by contender."""

    jobs_per_second: ByBatch
    redis_cpu_us_per_job: ByBatch
    claim_us_per_job: dict[str, dict[int, float]]
    bytes_per_waiting_job: dict[str, dict[str, float]]
    wake_up_ms: dict[str, dict[str, float]]


def medians(found: Rounds) -> ByBatch:
    """One figure for each operation out of those of the rounds."""
    return {
        name: {
            batch: {operation: median(each[operation] for each in rounds) for operation in OPERATIONS}
            for batch, rounds in by_batch.items()
        }
        for name, by_batch in found.items()
    }


async def throughput(places: list[Contender], quick: bool, say: Say) -> tuple[ByBatch, ByBatch]:
    """Jobs/s and Redis's microseconds by contender and batch; medians of three interleaved rounds."""
    rounds = 1 if quick else 3
    rates: Rounds = {}
    cpu_us: Rounds = {}

    def keep(name: str, batch: int, meter: Meter) -> None:
        rates.setdefault(name, {}).setdefault(batch, []).append(meter.rates)
        if meter.cpu_us:
            cpu_us.setdefault(name, {}).setdefault(batch, []).append(meter.cpu_us)

    for number in range(rounds):
        for batch in BATCHES:
            total = jobs_of(batch, quick)
            for place in places:
                say(f"round {number + 1} of {rounds}: {place.name}, batches of {batch:,}")
                clock = partial(cpu_s, place.redis) if place.redis else None
                store = await open_store(place.fresh_url())
                gc.collect()
                await measure_store(store, batch, total, number, meter := Meter(clock))
                await store.close()
                keep(place.name, batch, meter)
                if place.raw is not None:
                    raw = place.raw()
                    gc.collect()
                    measure_raw(raw, batch, total, number, meter := Meter(clock))
                    raw.close()
                    keep(f"raw {place.name}", batch, meter)
    return medians(rates), medians(cpu_us)


async def measure(places: list[Contender], quick: bool, say: Say) -> Figures:
    """Everything, one after the other."""
    rates, cpu_us = await throughput(places, quick, say)
    # What does not depend on the disk is measured under one profile of each store.
    once = [place for place in places if place.name not in ("sqlite durable", "redis durable")]
    costs = await claim_cost(once, quick, say)
    memory = {place.name: await memory_cost(place, quick, say) for place in once if place.redis is not None}
    wakes = {place.name: await wake_up(place, quick, say) for place in places}
    return Figures(rates, cpu_us, costs, memory, wakes)


def show(figures: Figures) -> None:
    """Print everything as tables."""
    show_rates(figures.jobs_per_second)
    show_cpu(figures.redis_cpu_us_per_job)
    show_costs(figures.claim_us_per_job, figures.bytes_per_waiting_job, figures.wake_up_ms)


if __name__ == "__main__":
    run(__doc__, measure, Figures._asdict, show)
