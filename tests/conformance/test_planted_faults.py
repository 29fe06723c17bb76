"""Planted faults: the suite must fail on a store with any of these faults."""

from pathlib import Path

import pytest

from tests.support.fault_registry import all_faults
from tests.support.isolated_run import run_isolated

HERE = Path(__file__).parent
FAULTS = all_faults()
EXAMPLES = sorted(
    str(path)
    for path in HERE.glob("test_*.py")
    if not path.stem.endswith(("planted_faults", "model", "histories", "race", "leftovers"))
)


@pytest.mark.parametrize(("store", "count"), [("memory", 20), ("redis", 12), ("postgres", 12)])
def test_there_are_enough_faults_to_trust_the_suite(store: str, count: int) -> None:
    assert sum(fault.store == store for fault in FAULTS.values()) >= count


@pytest.mark.parametrize("store", ["memory", "redis", "postgres"])
def test_nothing_fails_in_such_a_process_without_a_fault(store: str, tmp_path: Path) -> None:
    result = run_isolated(store, [str(HERE / "test_close.py")], tmp_path / "log")

    assert (result.failed, result.errors) == ([], []), result.output
    assert result.passed > 0, result.output


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_the_suite_notices_that(fault: str, tmp_path: Path) -> None:
    store, noticed_by, _ = FAULTS[fault]

    result = run_isolated(store, [str(HERE / noticed_by)], tmp_path / "log", fault)

    # The test itself has failed, not its fixtures: a fault that breaks everything proves nothing.
    if not result.failed:
        others = run_isolated(store, EXAMPLES, tmp_path / "others", fault)
        advice = f"name {others.failed[0]} beside it" if others.failed else "and neither has any other: write one"
        pytest.fail(f"{noticed_by} has not failed although {fault}; {advice}:\n{result.output}")
