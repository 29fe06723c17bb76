"""Short forms of the long proofs, so that they cannot rot; and the proof that their checker can fail."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof.histories import run
from tests.support.stores import STORES

ROOT = Path(__file__).parents[2]
FIRST = 1_003
"""A seed with three shards that claims often from its beginning on."""
LENGTHS = {"memory": (3, 200), "sqlite": (1, 200), "redis": (1, 200), "redis-cluster": (1, 100), "postgres": (1, 60)}
"""How many seeds a store plays here and how many operations of each, the slower the fewer."""


@pytest.mark.parametrize("store_name", sorted(STORES))
def test_a_few_seeds_break_no_promise(store_name: str) -> None:
    received: list[str] = []
    seeds, operations = LENGTHS[store_name]

    figures = run(store_name, FIRST, seeds, received.append, operations)

    assert (figures.violations, received) == (0, [])
    assert (figures.seeds, figures.operations) == (seeds, seeds * operations)
    assert figures.claims > 10


@pytest.mark.parametrize(
    "fault",
    [
        "a_job_is_handed_out_beside_its_active_namesake",
        "a_token_is_not_checked",
        "an_expired_lease_is_accepted",
        "claims_are_not_written_to_the_journal",
        "the_journal_has_gaps",
        "a_blocked_job_is_lost_when_its_namesake_ends",
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
