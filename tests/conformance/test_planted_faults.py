"""Planted faults: the suite that passes on a store must fail on that store broken in any of these ways."""

from pathlib import Path

import pytest

from tests.support.apart import run_apart
from tests.support.planting import all_faults

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
    seen = run_apart(store, [str(HERE / "test_close.py")], tmp_path / "log")

    assert (seen.failed, seen.broken) == ([], []), seen.said
    assert seen.passed > 0, seen.said


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_the_suite_notices_that(fault: str, tmp_path: Path) -> None:
    store, noticed_by, _ = FAULTS[fault]

    seen = run_apart(store, [str(HERE / noticed_by)], tmp_path / "log", fault)

    # A test has failed, and not what opens the store for it: a fault that breaks everything proves nothing.
    if not seen.failed:
        others = run_apart(store, EXAMPLES, tmp_path / "others", fault)
        advice = f"name {others.failed[0]} beside it" if others.failed else "and neither has any other: write one"
        pytest.fail(f"{noticed_by} has not failed although {fault}; {advice}:\n{seen.said}")
