"""Planted faults: the simulation must fail on a worker or client that is broken in any of these ways."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.planted_faults import FAULTS

ROOT = Path(__file__).parents[2]
SEEDS = 60
PROGRAM = """
import sys
from tests.simulation.plant import plant
plant(sys.argv[1])
from tests.simulation.world import simulate
for seed in range({seeds}):
    violations = simulate(seed).violations
    if violations:
        print(f"caught at seed {{seed}}: {{violations[0]}}")
        break
"""


def test_there_are_enough_faults_to_trust_the_simulation() -> None:
    assert len(FAULTS) >= 12


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_the_simulation_notices_that(name: str) -> None:
    program = PROGRAM.format(seeds=SEEDS)

    finished = subprocess.run(
        [sys.executable, "-c", program, name], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert finished.returncode == 0, finished.stderr[-2_000:]
    assert finished.stdout.startswith("caught"), f"no seed of {SEEDS} was broken although {name}"
