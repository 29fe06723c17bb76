"""`headrace init`: a first app for an empty folder."""

import subprocess
import sys
import tomllib
from pathlib import Path

from tests.cli.support import run


def test_an_empty_folder_gets_an_app_its_tests_and_a_project(tmp_path: Path) -> None:
    """C38: `init`."""
    ran = run("init", cwd=tmp_path)

    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [
        "wrote app.py, test_app.py and pyproject.toml",
        "",
        "send a job:",
        "  headrace enqueue greet name=Ada",
        "run due jobs (without --until-idle: run until Ctrl-C):",
        "  headrace worker --until-idle",
        "see the result:",
        "  headrace jobs list",
        "run the tests:",
        "  pytest",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.py", "pyproject.toml", "test_app.py"]
    table = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    assert table == {"tool": {"headrace": {"app": "app:app"}}}


def test_what_it_writes_is_clean(tmp_path: Path) -> None:
    """That its tests pass is seen by the page of the first steps."""
    run("init", cwd=tmp_path)

    def ruff(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "ruff", *words, "--no-cache", "."]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    linted = ruff("check", "--select", "ANN,B,E,F,I,N,RUF,UP,W")
    formatted = ruff("format", "--check")

    assert (linted.returncode, formatted.returncode) == (0, 0), linted.stdout + formatted.stdout


def test_files_that_are_there_are_left_alone_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "test_app.py").write_text("mine")

    refused = run("init", cwd=tmp_path, terminal=True)
    left = sorted(path.name for path in tmp_path.iterdir())
    forced = run("init", "--force", cwd=tmp_path, terminal=True)

    assert refused.code == 2
    assert refused.out.startswith("headrace: test_app.py is already in ")
    assert left == ["test_app.py"]
    assert (forced.code, forced.lines[0]) == (0, "wrote app.py, test_app.py and pyproject.toml")
    assert "Kit" in (tmp_path / "test_app.py").read_text()


def test_a_project_that_is_there_is_never_written_to(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text('[project]\nname = "shop"\n')
    below = tmp_path / "below"
    below.mkdir()

    document = run("init", "--json", cwd=below).document
    forced = run("init", "--force", cwd=below)

    assert document["written"] == ["app.py", "test_app.py"]
    assert document["add_to"] == str(project)
    assert document["add"] == '[tool.headrace]\napp = "app:app"\n'
    assert document["next"][:2] == [
        "headrace enqueue greet name=Ada --app app:app",
        "headrace worker app:app --until-idle",
    ]
    assert f"add this to {project}, so that commands find the app:" in forced.lines
    assert project.read_text() == '[project]\nname = "shop"\n'


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "app.py").mkdir()

    ran = run("init", "--force", cwd=tmp_path)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"headrace: {tmp_path}/app.py cannot be written: Is a directory\n"
