"""Promises of tools/parts.py: the parts that run, the table, and the causes of a failed run."""

import sys
import tomllib
from pathlib import Path

import pytest

from tools import parts
from tools.parts import Part, Result, Tally

ROOT = Path(__file__).resolve().parents[2]

PASSING = "def test_it_holds() -> None:\n    assert True\n"
FAILING = "def test_it_does_not_hold() -> None:\n    assert False\n"
SKIPPED = "import pytest\n\n@pytest.mark.skip\ndef test_it_waits() -> None:\n    pass\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with the two parts `first` (tests/one, tests/two) and `second` (a command)."""
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\naddopts = ['-p', 'no:cacheprovider']\n")
    write(
        tmp_path / "tools/budget.toml",
        '[[part]]\nname = "first"\nbudget_minutes = 1\npaths = ["tests/one", "tests/two"]\n'
        f'[[part]]\nname = "second"\nbudget_minutes = 2\ncommands = [["{sys.executable}", "-c", "print(6 * 7)"]]\n',
    )
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_run_without_failures_ends_with_zero_and_totals(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(root / "tests/one/test_a.py", PASSING)
    write(root / "tests/two/test_b.py", PASSING)

    code = parts.main([], root)

    out = capfd.readouterr().out
    assert code == 0
    assert "\n42\n" in out
    assert out.endswith(" s: 3 passed, 0 failed\n")


def test_a_failed_part_fails_the_run_after_all_others_have_run(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(root / "tests/one/test_a.py", PASSING + FAILING)

    code = parts.main([], root)

    out = capfd.readouterr().out
    assert code == 1
    assert "\n42\n" in out
    assert out.endswith(" s: 2 passed, 1 failed\n")


def test_a_part_whose_folders_hold_no_tests_yet_is_skipped_and_says_so(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(root / "tests/two/conftest.py", "")

    code = parts.main([], root)

    out = capfd.readouterr().out
    assert code == 0
    assert "not there yet: tests/one, tests/two" in out
    assert out.endswith(" s: 1 passed, 0 failed\n")


@pytest.mark.parametrize("content", ["import no_such_module\n", "", "def test_broken(:\n"])
def test_a_file_that_cannot_be_collected_or_holds_no_test_is_a_failure(
    root: Path, content: str, capfd: pytest.CaptureFixture[str]
) -> None:
    write(root / "tests/one/test_a.py", content)

    code = parts.main(["first"], root)

    assert code == 1
    assert capfd.readouterr().out.endswith(" s: 0 passed, 1 failed\n")


def test_a_failing_command_is_a_failure(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    part = Part("second", 60, commands=((sys.executable, "-c", "raise SystemExit(3)"), (sys.executable, "-c", "")))

    result = parts.run_part(part, root)

    assert result.tally == Tally(passed=1, failed=1)


def test_skipped_tests_are_not_counted_as_passed(root: Path) -> None:
    write(root / "tests/one/test_a.py", PASSING + SKIPPED)

    result = parts.run_part(Part("first", 60, paths=("tests/one",)), root)

    assert result.tally == Tally(passed=1, skipped=1)


def test_tests_are_counted_once_when_several_workers_share_them(root: Path) -> None:
    write(root / "tests/one/test_a.py", PASSING)
    write(root / "tests/one/test_b.py", PASSING.replace("holds", "holds_too"))

    result = parts.run_part(Part("first", 60, paths=("tests/one",), workers=2), root)

    assert result.tally == Tally(passed=2)


@pytest.mark.parametrize("file", ["tests/new/test_a.py", "tests/new/deep/b_test.py", "tests/test_a.py"])
def test_tests_that_belong_to_no_part_are_an_error(root: Path, file: str, capfd: pytest.CaptureFixture[str]) -> None:
    write(root / file, PASSING)

    code = parts.main([], root)

    err = capfd.readouterr().err
    assert code == 1
    assert f"tests in {Path(file).parent} belong to no part" in err


def test_a_folder_without_tests_needs_no_part(root: Path) -> None:
    write(root / "tests/support/factories.py", "")

    parts.refuse_unclaimed(root, parts.read_parts(root / "tools/budget.toml"))


def test_an_unknown_part_is_refused_with_the_known_ones(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = parts.main(["frist"], root)

    assert code == 1
    assert capfd.readouterr().err == "parts: no part is called 'frist'; the parts are first, second\n"


def test_a_slow_part_is_marked_and_fails_nothing() -> None:
    result = Result(Part("slow", budget_s=60), seconds=60.1, tally=Tally(passed=5))

    row = parts.table([result]).splitlines()[1]

    assert row.split() == ["slow", "60.1", "60", "5", "0", "0", "over"]
    assert not result.is_failed


def test_a_part_within_its_budget_bears_no_mark() -> None:
    row = parts.table([Result(Part("quick", budget_s=60), seconds=60, tally=Tally(passed=5))]).splitlines()[1]

    assert row.split() == ["quick", "60.0", "60", "5", "0", "0"]


def test_a_failed_part_is_marked() -> None:
    row = parts.table([Result(Part("bad", budget_s=60), seconds=1, tally=Tally(failed=1))]).splitlines()[1]

    assert row.endswith("  FAILED")


def test_a_part_that_did_not_run_is_in_the_table_all_the_same() -> None:
    row = parts.table([Result(Part("later", budget_s=60))]).splitlines()[1]

    assert row.endswith("nothing there yet")


def test_lanes_run_beside_each_other_and_show_each_part_whole_in_the_order_of_the_table(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # Each waits for the other's file, so that one after the other would never end.
    meet = (
        "import pathlib, sys, time\nmine, other = map(pathlib.Path, sys.argv[1:])\nmine.touch()\n"
        "ends = time.monotonic() + 30\n"
        "while not other.exists() and time.monotonic() < ends:\n    time.sleep(0.01)\n"
        "print('met' if other.exists() else 'alone')"
    )
    one, two = str(root / "one"), str(root / "two")
    first = Part("first", 60, commands=((sys.executable, "-c", meet, one, two),), lane=2)
    second = Part("second", 60, commands=((sys.executable, "-c", meet, two, one),), lane=1)

    results = parts.run_all([first, second], root)

    out = capfd.readouterr().out
    assert [(result.part.name, result.tally) for result in results] == [
        ("first", Tally(passed=1)),
        ("second", Tally(passed=1)),
    ]
    assert out.count("\nmet\n") == 2


def test_our_own_parts_claim_every_test_and_state_a_budget() -> None:
    own = parts.read_parts(ROOT / "tools/budget.toml")

    parts.refuse_unclaimed(ROOT, own)
    assert own[0].name == "check"
    assert all(part.budget_s > 0 and (part.paths or part.commands) for part in own)


def test_no_folder_belongs_to_two_parts() -> None:
    entries = tomllib.loads((ROOT / "tools/budget.toml").read_text())["part"]
    paths = [path for entry in entries for path in entry.get("paths", [])]

    assert len(paths) == len(set(paths))
