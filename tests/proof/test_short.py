"""Short forms of the long proofs, so that they cannot rot; and the proof that their checker can fail."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof.histories import run
from tests.support.stores import STORES

ROOT = Path(__file__).parents[2]
SEEDS = {"redis-cluster": 1, "postgres": 1}
"""How many seeds the slower stores play here."""


@pytest.mark.parametrize("store_name", sorted(STORES))
def test_a_few_seeds_break_no_promise(store_name: str) -> None:
    said: list[str] = []

    figures = run(store_name, 1_000, SEEDS.get(store_name, 3), said.append)

    assert (figures.violations, said) == (0, [])
    assert figures.claims > 10


@pytest.mark.parametrize(
    "fault",
    [
        "a_job_is_handed_out_beside_its_active_namesake",
        "a_token_is_not_checked",
        "an_expired_lease_is_accepted",
        "claims_are_not_written_to_the_journal",
        "the_journal_has_gaps",
        "a_twin_is_lost_when_its_namesake_ends",
    ],
)
def test_the_same_check_fails_on_a_planted_fault(fault: str) -> None:
    code = (
        f"from tests.support.faults import plant; plant({fault!r})\n"
        "from tests.proof.histories import run\n"
        "print(run('memory', 1_000, 2, print).violations)"
    )

    finished = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)

    assert int(finished.stdout.splitlines()[-1]) > 0, finished.stdout + finished.stderr
    assert "replay: python -m tests.proof --stores memory --first" in finished.stdout
