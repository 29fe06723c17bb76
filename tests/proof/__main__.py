"""Runs the long proofs: `python -m tests.proof [--simulation | --histories | --workers | --feeds | --spark | …]`."""

import argparse
import asyncio
import os
import sys
import time

from tests.proof.audit_load import run_audits
from tests.proof.death_kills import run_deaths
from tests.proof.feeds import run_all_feeds
from tests.proof.fleet_kills import run_fleets
from tests.proof.histories import run
from tests.proof.map_kills import run_maps
from tests.proof.service_faults import plant_service_faults
from tests.proof.simulation import replay, run_simulation
from tests.proof.spark_kills import run_all_kills
from tests.proof.table_kills import run_all_table_kills
from tests.proof.worker_runs import run_workers
from tests.support.stores import STORES

STRIDE = 25
SIMULATION_STRIDE = 100


def main() -> int:
    """Run the chosen proofs, report the progress, and exit with 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("--simulation", action="store_true", help="only the simulation of client and worker")
    parser.add_argument("--histories", action="store_true", help="only the histories of the stores")
    parser.add_argument("--workers", action="store_true", help="only the runs that kill, stop and block workers")
    parser.add_argument("--feeds", action="store_true", help="only the run that kills and resumes a subscriber")
    parser.add_argument("--spark", action="store_true", help="only the runs that kill drivers and executors of Spark")
    parser.add_argument("--tables", action="store_true", help="only the runs that kill what brings tables forward")
    parser.add_argument("--map", action="store_true", help="only the runs that kill drivers and workers of maps")
    parser.add_argument("--fleet", action="store_true", help="only the runs that kill drivers and workers of fleets")
    parser.add_argument("--service", action="store_true", help="only the faults planted in the HTTP service")
    parser.add_argument("--audit", action="store_true", help="only the audits beside workers that never rest")
    parser.add_argument(
        "--rows", type=int, help="of a map, jobs of an audit (default 100,000), of a fleet (default 20,000)"
    )
    parser.add_argument("--seeds", type=int, help="histories per store (default 500), simulated seeds (default 20,000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--stores", default=",".join(STORES), help="the stores, separated by commas")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="of the simulation")
    options = parser.parse_args()
    violations = 0
    proofs = ("simulation", "histories", "workers", "feeds", "spark", "tables", "map", "fleet", "service", "audit")
    chosen = any(getattr(options, name) for name in proofs)
    if options.simulation or not chosen:
        violations += simulate_seeds(options.first, options.seeds or 20_000, options.processes)
    if options.histories or not chosen:
        violations += play_histories(options.first, options.seeds or 500, options.stores.split(","))
    if options.workers or not chosen:
        violations += asyncio.run(run_workers(lambda line: print(line, flush=True)))
        violations += asyncio.run(run_deaths(lambda line: print(line, flush=True)))
    if options.feeds or not chosen:
        violations += asyncio.run(run_all_feeds(lambda line: print(line, flush=True)))
    if options.spark or not chosen:
        violations += asyncio.run(run_all_kills(lambda line: print(line, flush=True)))
    if options.tables or not chosen:
        violations += asyncio.run(run_all_table_kills(lambda line: print(line, flush=True)))
    if options.map or not chosen:
        violations += asyncio.run(run_maps(lambda line: print(line, flush=True), options.rows or 100_000))
    if options.fleet or not chosen:
        violations += asyncio.run(run_fleets(lambda line: print(line, flush=True), options.rows or 20_000))
    if options.service or not chosen:
        violations += plant_service_faults(lambda line: print(line, flush=True))
    if options.audit or not chosen:
        audited = ("sqlite", "redis", "postgres")
        violations += run_audits(lambda line: print(line, flush=True), audited, options.rows or 100_000)
    return 1 if violations else 0


def simulate_seeds(first: int, count: int, processes: int) -> int:
    """Simulate, one seed with all its steps, many with their figures; returns the number of violations."""
    start = time.monotonic()
    if count == 1:
        figures = replay(first, print)
    else:
        figures = run_simulation(first, count, SIMULATION_STRIDE, processes, lambda line: print(line, flush=True))
    print(f"simulation: {figures}, {time.monotonic() - start:.0f} s")
    return figures.violations


def play_histories(start_seed: int, count: int, stores: list[str]) -> int:
    """Play the seeds on every store; returns the number of violations."""
    violations = 0
    for name in stores:
        start, seeds, operations, claims, compared = time.monotonic(), 0, 0, 0, 0
        for first in range(start_seed, start_seed + count, STRIDE):
            stride = min(STRIDE, start_seed + count - first)
            figures = run(name, first, stride, print)
            seeds, operations, claims = seeds + stride, operations + figures.operations, claims + figures.claims
            violations, compared = violations + figures.violations, compared + figures.compared
            print(f"  {name}: {seeds:,} of {count:,} seeds, {operations:,} operations", flush=True)
        print(
            f"{name}: {seeds:,} seeds, {operations:,} operations checked after each, {claims:,} claims,"
            f" {compared:,} operations compared with memory, violations {violations}, {time.monotonic() - start:.0f} s"
        )
    return violations


if __name__ == "__main__":
    sys.exit(main())
