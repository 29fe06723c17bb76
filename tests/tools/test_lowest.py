"""Promises of tools/lowest.py: every dependency has a lower bound, and the table marks missing ones."""

from pathlib import Path

import pytest
from packaging.version import Version

from tools import lowest

ROOT = Path(__file__).resolve().parents[2]


def test_every_dependency_of_the_project_names_its_lowest_version() -> None:
    assert [name for name, floor in lowest.floors(ROOT).items() if floor == Version("0")] == []


def test_the_highest_floor_of_several_counts_and_our_own_extras_have_none(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "shop"\ndependencies = ["msgspec>=0.19"]\n[project.optional-dependencies]\n'
        'web = ["Some_Server[fast]>=1.2,<3; sys_platform == \'linux\'", "msgspec>=0.20"]\nall = ["shop[web]", "free"]\n'
    )

    floors = lowest.floors(tmp_path)

    assert floors == {"msgspec": Version("0.20"), "some-server": Version("1.2"), "free": Version("0")}


def test_a_version_that_is_not_the_floor_is_marked() -> None:
    floors = {"pyarrow": Version("18"), "rich": Version("13")}

    _, *lines = lowest.table(
        floors, "pyarrow==18.0.0\nrich==13.8.0 ; sys_platform == 'linux'\nzstandard==0.25\n"
    ).splitlines()

    assert [line.split(maxsplit=3) for line in lines] == [
        ["pyarrow", "18", "18.0.0"],
        ["rich", "13", "13.8.0", "not the floor"],
    ]


def test_the_chosen_tests_are_there() -> None:
    assert [path for paths in lowest.CHOSEN for path in paths if not (ROOT / path).exists()] == []


def test_arguments_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert lowest.main(["--fast"]) == 2
    assert "takes no arguments" in capfd.readouterr().err
