"""Promises of the project: its settings are those of the nearest pyproject.toml."""

from pathlib import Path

import pytest

from headrace.app.discovery import project_file, project_table
from headrace.model.errors import BadConfig


def write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pyproject.toml"
    file.write_bytes(text.encode("latin-1"))
    return file


def test_the_nearest_file_upward_counts(tmp_path: Path) -> None:
    outer, inner = write(tmp_path, "[tool.headrace]\napp = 'outer:app'"), tmp_path / "a/b"
    inner.mkdir(parents=True)

    above = project_file(inner), project_table(inner)
    nearest = write(inner, "[tool.headrace]\napp = 'inner:app'")

    assert above == (outer, {"app": "outer:app"})
    assert (project_file(inner), project_table(inner)) == (nearest, {"app": "inner:app"})
    assert project_table(inner.parent) == {"app": "outer:app"}


def test_a_project_that_says_nothing_of_headrace_hides_the_one_above(tmp_path: Path) -> None:
    write(tmp_path, "[tool.headrace]\napp = 'outer:app'")
    write(tmp_path / "inner", "[project]\nname = 'x'")

    assert project_table(tmp_path / "inner") == {}


def test_a_folder_of_that_name_is_no_project(tmp_path: Path) -> None:
    file = write(tmp_path, "[tool.headrace.worker]\ncapacity = 3")
    (tmp_path / "inner/pyproject.toml").mkdir(parents=True)

    assert project_file(tmp_path / "inner") == file
    assert project_table(tmp_path / "inner") == {"worker": {"capacity": 3}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.headrace", "cannot be read for its [tool.headrace] table: "),
        ("# caf\xe9", "cannot be read for its [tool.headrace] table: "),
        ("[tool]\nheadrace = 'yes'", "must be a table; found 'yes'"),
        ("tool = 3", "must be a table; found 3"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_by_its_name(text: str, message: str, tmp_path: Path) -> None:
    file = write(tmp_path, text)

    with pytest.raises(BadConfig) as caught:
        project_table(tmp_path)

    assert str(file) in str(caught.value)
    assert message in str(caught.value)
