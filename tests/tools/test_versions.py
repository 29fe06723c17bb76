"""Promises of tools/versions.py: the Pythons found, the table, and the causes of a failed run."""

import sys
import tomllib
from pathlib import Path

import pytest

from tools import versions
from tools.parts import Tally
from tools.setup import LOCKS
from tools.versions import CHOSEN, CHOSEN_SHORT, LEFT_OUT, VERSIONS, Outcome, Python

ROOT = Path(__file__).resolve().parents[2]
OWN = ".".join(map(str, sys.version_info[:2]))
OTHER = next(version for version in VERSIONS if version != OWN)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any Python: an empty home and an empty folder on PATH."""
    for name in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with locks and a project."""
    tree = tmp_path / "tree"
    (tree / "requirements").mkdir(parents=True)
    (tree / "requirements/build.txt").write_text("setuptools==84.2.1 \\\n    --hash=sha256:aa\n    # via build.in\n")
    (tree / "requirements/dev.txt").write_text(
        "pyspark==4.3.0 \\\n    --hash=sha256:bb\nPy4J==0.10 ; python_version < '3.12' \\\n    --hash=sha256:cc\n"
        "pytest==9.2.0 \\\n    --hash=sha256:dd\n"
    )
    (tree / "pyproject.toml").write_text("[project]\n")
    return tree


def install(program: Path, release: str, otherwise: str = "exit 1") -> None:
    """Put a fake Python in place that only prints its version."""
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\ncase "$*" in *python_version*) echo {release};; *) {otherwise};; esac\n')
    program.chmod(0o755)


@pytest.mark.parametrize(
    "folder",
    ["bin", f".pyenv/versions/{OTHER}.1/bin", f".local/share/uv/python/cpython-{OTHER}.1-linux-x86_64-gnu/bin"],
    ids=["path", "pyenv", "uv"],
)
def test_a_python_is_found_wherever_its_like_are_kept(home: Path, folder: str) -> None:
    install(home / folder / f"python{OTHER}", f"{OTHER}.1")

    assert versions.find(OTHER) == Python(home / folder / f"python{OTHER}", f"{OTHER}.1")


def test_a_shim_that_starts_no_python_is_passed_over(home: Path) -> None:
    shim = home / "bin" / f"python{OTHER}"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    install(home / f".pyenv/versions/{OTHER}.1/bin/python{OTHER}", f"{OTHER}.1")

    found = versions.find(OTHER)

    assert found is not None
    assert found.program != shim


def test_pythons_that_are_not_there_are_named_and_fail_nothing(
    home: Path, root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = versions.main(["--short"], root)

    out = capfd.readouterr().out
    assert code == 0
    assert [version for version in VERSIONS if f"no python{version} on PATH" in out] == [
        version for version in VERSIONS if version != OWN
    ]


def test_a_python_that_is_there_and_cannot_be_used_fails_the_run(
    home: Path, root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    install(home / "bin" / f"python{OTHER}", f"{OTHER}.1", otherwise="exit 3")

    code = versions.main(["--short"], root)

    out = capfd.readouterr().out
    assert code == 1
    assert f"{OTHER}.1" in out
    assert "FAILED: `" in out
    assert "ended with 3" in out


def test_a_failed_test_is_in_the_table_and_fails_the_run() -> None:
    outcome = Outcome("3.12", Python(Path("/python3.12"), "3.12.1"), 61.0, Tally(passed=7, failed=2))

    assert outcome.is_failed
    assert versions.table([outcome]).splitlines()[1].split() == ["3.12.1", "61.0", "7", "2", "0"]


def test_an_option_that_is_not_known_is_refused(root: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = versions.main(["--shrot"], root)

    assert code == 2
    assert "'--shrot'" in capfd.readouterr().err


def test_large_packages_that_no_chosen_test_needs_are_left_out(root: Path) -> None:
    assert versions.locked_packages(root) == (
        "setuptools==84.2.1 \\\n    --hash=sha256:aa\n    # via build.in\npytest==9.2.0 \\\n    --hash=sha256:dd\n"
    )


def test_what_is_left_out_is_locked_and_what_is_chosen_is_there() -> None:
    locked = {versions.name_of(entry) for lock in LOCKS for entry in versions.entries_of((ROOT / lock).read_text())}

    assert sorted(LEFT_OUT - locked) == []
    assert [path for paths in (*CHOSEN, *CHOSEN_SHORT) for path in paths if not (ROOT / path).exists()] == []


def test_the_project_names_only_pythons_that_are_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    prefix = "Programming Language :: Python :: 3."
    named = [line.removeprefix(prefix[:-2]) for line in project["classifiers"] if line.startswith(prefix)]
    assert set(named) <= set(VERSIONS)
    assert project["requires-python"] == f">={VERSIONS[0]}"
