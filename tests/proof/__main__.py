"""Runs the long proofs: `python -m tests.proof [--seeds N] [--first N] [--stores memory,sqlite]`."""

import argparse
import sys
import time

from tests.proof.histories import run
from tests.support.stores import STORES

STRIDE = 25


def main() -> int:
    """Play the seeds on every store, say how it goes, and end with 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.proof", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="histories per store (default 500)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--stores", default=",".join(STORES), help="the stores, separated by commas")
    options = parser.parse_args()
    violations = 0
    for name in options.stores.split(","):
        start, seeds, operations, claims, compared = time.monotonic(), 0, 0, 0, 0
        for first in range(options.first, options.first + options.seeds, STRIDE):
            stride = min(STRIDE, options.first + options.seeds - first)
            figures = run(name, first, stride, print)
            seeds, operations, claims = seeds + stride, operations + figures.operations, claims + figures.claims
            violations, compared = violations + figures.violations, compared + figures.compared
            print(f"  {name}: {seeds:,} of {options.seeds:,} seeds, {operations:,} operations", flush=True)
        print(
            f"{name}: {seeds:,} seeds, {operations:,} operations checked after each, {claims:,} claims,"
            f" {compared:,} operations compared with memory, violations {violations}, {time.monotonic() - start:.0f} s"
        )
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
