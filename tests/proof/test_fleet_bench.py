"""The short form of the benchmark of fleets runs and measures its figures."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_benchmark_of_fleets_does_every_job_once_beside_plain_workers() -> None:
    command = [sys.executable, "-m", "benchmarks.fleet", "--quick", "--json", "--masters", "local[2]"]

    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    [found] = json.loads(finished.stdout).values()
    assert min(found["plain_per_second"], found["fleet_per_second"], found["start_s"]) > 0
    assert found["fleet_with_start_per_second"] < found["fleet_call_per_second"] < found["fleet_per_second"]
