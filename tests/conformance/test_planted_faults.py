"""Planted faults: the suite that passes on a store must fail on that store broken in any of these ways."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.planting import all_faults

HERE = Path(__file__).parent
FAULTS = all_faults()
EXAMPLES = sorted(
    str(path)
    for path in HERE.glob("test_*.py")
    if path.stem not in ("test_planted_faults", "test_model", "test_histories", "test_race", "test_leftovers")
)


def run(store: str, first: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run the examples on a store in a process of their own, those of one operation first, up to the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist"]
    files = sorted(EXAMPLES, key=lambda path: not path.endswith(f"test_{first}.py"))
    return subprocess.run(
        [*command, f"--stores={store}", *options, *files],
        cwd=HERE.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("store", "count"), [("memory", 20), ("redis", 12), ("postgres", 12)])
def test_there_are_enough_faults_to_trust_the_suite(store: str, count: int) -> None:
    assert sum(fault.store == store for fault in FAULTS.values()) >= count


def test_the_suite_passes_on_memory_as_it_is() -> None:
    finished = run("memory", "enqueue")

    assert finished.returncode == 0, finished.stdout[-2_000:]


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_the_suite_notices_that(name: str) -> None:
    fault = FAULTS[name]

    finished = run(fault.store, fault.first, f"--fault={name}")

    assert finished.returncode == 1, (
        f"nothing failed although {name}:\n{finished.stdout[-1_000:]}{finished.stderr[-1_000:]}"
    )
