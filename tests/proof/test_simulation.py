"""The simulation as a proof: it adds up its figures, reports progress, and shows a broken seed step by step."""

import subprocess
import sys
from pathlib import Path

from tests.proof.simulation import run_simulation

ROOT = Path(__file__).parents[2]


def test_seeds_of_several_processes_are_added_up() -> None:
    received: list[str] = []

    figures = run_simulation(5_000, 5, 2, 2, received.append)

    assert (figures.seeds, figures.violations) == (5, 0)
    assert figures.operations >= 5 * 200
    assert sum(figures.faults.values()) >= 5 * 5
    assert len(received) == 3


def test_a_broken_seed_is_shown_step_by_step_and_fails_the_run() -> None:
    code = (
        "from tests.simulation.plant import plant; plant('a_time_limit_is_ignored')\n"
        "import sys; sys.argv = ['tests.proof', '--simulation', '--first', '0', '--seeds', '1']\n"
        "from tests.proof.__main__ import main\n"
        "sys.exit(main())"
    )

    finished = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert finished.returncode == 1, finished.stderr
    assert "replay: python -m tests.proof --simulation --first 0 --seeds 1" in finished.stdout
    assert "worker-0.1: starts" in finished.stdout
