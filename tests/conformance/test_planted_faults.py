"""Planted faults: the suite that passes on memory must fail on memory broken in any of these ways."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.faults import FAULTS, FIRST

HERE = Path(__file__).parent
EXAMPLES = sorted(
    str(path)
    for path in HERE.glob("test_*.py")
    if path.stem not in ("test_planted_faults", "test_model", "test_histories", "test_race", "test_leftovers")
)


def run(first: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the examples on memory in a process of their own, those of one operation first, up to the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist"]
    files = sorted(EXAMPLES, key=lambda path: not path.endswith(f"test_{first}.py"))
    return subprocess.run(
        [*command, "--stores=memory", *options, *files],
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def test_there_are_enough_faults_to_trust_the_suite() -> None:
    assert len(FAULTS) >= 20


def test_the_suite_passes_on_memory_as_it_is() -> None:
    finished = run("enqueue")

    assert finished.returncode == 0, finished.stdout[-2_000:]


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_the_suite_notices_that(fault: str) -> None:
    finished = run(FIRST[fault], f"--fault={fault}")

    assert finished.returncode == 1, (
        f"nothing failed although {fault}:\n{finished.stdout[-1_000:]}{finished.stderr[-1_000:]}"
    )
