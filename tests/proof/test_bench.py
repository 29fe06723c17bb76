"""The benchmark's short form: it runs, and measures what it says."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_benchmark_measures_every_store_and_batch_beside_the_raw_reference() -> None:
    command = [sys.executable, "-m", "benchmarks.stores", "--quick", "--json"]

    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    figures = json.loads(finished.stdout)
    rates = figures["jobs_per_second"]
    assert set(rates) == {"memory", "sqlite fast", "sqlite durable", "raw fast", "raw durable"}
    for by_batch in rates.values():
        assert set(by_batch) == {"1", "10", "100", "1000"}
        assert all(rate > 0 for each in by_batch.values() for rate in each.values())
    assert set(figures["claim_us_per_job"]) == {"memory", "sqlite fast"}
