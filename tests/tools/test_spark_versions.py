"""Promises of tools/spark_versions.py: what it runs is there, and covers the versions that pyproject.toml allows."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tools import spark_versions
from tools.parts import Tally

ROOT = Path(__file__).resolve().parents[2]


def test_the_chosen_tests_are_there() -> None:
    assert [path for paths in spark_versions.CHOSEN for path in paths if not (ROOT / path).exists()] == []


def test_every_version_is_allowed_and_the_one_before_the_first_is_not() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    allowed = [
        need.specifier for need in map(Requirement, extras["spark"] + extras["connect"]) if need.name == "pyspark"
    ]

    assert [f"{version}.1" in each for version in ("4.0", *spark_versions.VERSIONS) for each in allowed] == (
        [False] * 2 + [True] * 2 * len(spark_versions.VERSIONS)
    )


def test_the_locked_spark_and_the_checks_are_left_out_of_the_environments(tmp_path: Path) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements/build.txt").write_text("setuptools==84.2.1 \\\n    --hash=sha256:aa\n")
    (tmp_path / "requirements/dev.txt").write_text(
        "pyspark==4.3.0 \\\n    --hash=sha256:bb\npy4j==0.10 \\\n    --hash=sha256:cc\n"
        "ruff==1 \\\n    --hash=sha256:dd\n"
    )

    assert spark_versions.locked_packages(tmp_path) == (
        "setuptools==84.2.1 \\\n    --hash=sha256:aa\npy4j==0.10 \\\n    --hash=sha256:cc\n"
    )


def test_a_line_of_the_table_tells_what_came_of_a_version() -> None:
    assert spark_versions.line("4.1.4", 61.2, Tally(passed=7, failed=2, skipped=1)).split() == [
        "4.1.4",
        "61",
        "7",
        "2",
        "1",
    ]


def test_a_version_that_is_not_served_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert spark_versions.main(["4.0"]) == 2
    assert "'4.0' is none of 4.1, 4.2, 4.3" in capfd.readouterr().err
