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


def run(store: str, files: list[str], *options: str) -> "subprocess.CompletedProcess[str]":
    """Run examples on a store in a process of their own, up to the first failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist"]
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


def test_nothing_fails_in_such_a_process_without_a_fault() -> None:
    finished = run("memory", [str(HERE / "test_enqueue.py")])

    assert finished.returncode == 0, finished.stdout[-2_000:]


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_the_suite_notices_that(name: str) -> None:
    fault = FAULTS[name]
    first = [path for path in EXAMPLES if path.endswith(f"test_{fault.first}.py")]

    finished = run(fault.store, first, f"--fault={name}")
    if finished.returncode == 0:
        finished = run(fault.store, EXAMPLES, f"--fault={name}")

    # A test has failed, and not what opens the store for it: a fault that breaks everything proves nothing.
    assert "1 failed" in finished.stdout.splitlines()[-1], (
        f"no test failed although {name}:\n{finished.stdout[-1_000:]}{finished.stderr[-1_000:]}"
    )
