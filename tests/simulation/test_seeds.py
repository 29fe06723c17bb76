"""The real client and worker in simulated worlds: no fault breaks a promise."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.proof.simulation import replay_command
from tests.simulation.world import FAULTS_MIN, OPERATIONS_MIN, simulate

ROOT = Path(__file__).parents[2]
SEEDS = 2_000
GROUP = 50
"""Seeds of one test: as many tests as are needed to keep two processes busy."""
KINDS = {
    "clock jump",
    "crash",
    "double",
    "drop_request",
    "lose_part",
    "lose_reply",
    "lose_request",
    "lost_hint",
    "partition",
    "pause",
    "producer crash",
    "slow",
    "stop",
}


@pytest.mark.parametrize("first", range(0, SEEDS, GROUP))
def test_no_promise_is_broken(first: int) -> None:
    """T28, T32, TB1, TB5: leases, drains, results and dead letters hold through crashes, pauses and lost replies."""
    faults: Counter[str] = Counter()

    for seed in range(first, first + GROUP):
        outcome = simulate(seed)
        faults += outcome.faults

        assert outcome.violations == [], replay_command(seed)
        assert outcome.operations >= OPERATIONS_MIN
        assert sum(outcome.faults.values()) >= FAULTS_MIN

    assert set(faults) == KINDS


@pytest.mark.parametrize("seed", [3, 4, 5])
def test_a_seed_is_the_same_in_every_run(seed: int) -> None:
    code = (
        "import sys, hashlib; from tests.simulation.world import simulate\n"
        f"trace = simulate({seed}, is_traced=True).trace\n"
        "print(len(trace), hashlib.sha256('\\n'.join(trace).encode()).hexdigest())"
    )

    # Two processes that walk sets and dicts of texts in different orders.
    traces = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in ("1", "2")
    ]

    assert traces[0] == traces[1]
    assert int(traces[0].split()[0]) > OPERATIONS_MIN


def test_different_seeds_are_different_worlds() -> None:
    assert simulate(1).seconds != simulate(2).seconds
