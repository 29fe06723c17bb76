"""Discovery: an app is found by its name, settings in the nearest pyproject.toml; errors name what is missing."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import App
from headrace.app.discovery import load_app, project_file, project_table
from headrace.model.errors import BadConfig


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working directory of a project, whose modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    known = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - known:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(tmp_path):
            del sys.modules[name]


def write(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_an_app_is_found_by_module_and_name_in_the_working_directory(folder: Path) -> None:
    write(folder, "shop_jobs.py", "from headrace import App\napp = App('memory://')\nother = App('memory://')\n")
    write(folder, "shop_parts/deep/jobs.py", "from headrace import App\nmain = App('memory://')\n")

    default, named = load_app("shop_jobs"), load_app("shop_jobs:other")
    deep = load_app("shop_parts.deep.jobs:main")

    assert all(isinstance(each, App) for each in (default, named, deep))
    assert default is load_app("shop_jobs:app") is sys.modules["shop_jobs"].app
    assert named is not default


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nowhere:app", "there is no module 'nowhere' in "),
        ("nowhere.deep:app", "there is no module 'nowhere.deep' in "),
        ("good.deeper:app", "there is no module 'good.deeper' in "),
        ("good:ap", "good:ap should be a headrace.App; found nothing of that name; did you mean good:app?"),
        ("good:number", "good:number should be a headrace.App; found a int of that name; did you mean good:app?"),
        ("empty", "empty should be a headrace.App; found nothing of that name; make one there: app = App()"),
        ("good.py:app", "there is no module 'good.py' in "),
        ("./good.py", "an app is named by its module and its name there, as in shop.jobs:app; found './good.py'"),
        ("good:app.x", "an app is named by its module and its name there"),
        ("", "an app is named by its module and its name there"),
        ("broken", "the module 'broken' raised ZeroDivisionError (broken.py, line 2) while it was imported: division"),
        ("needy", "the module 'needy' raised ModuleNotFoundError (needy.py, line 1) while it was imported: No module"),
        ("leaky", "raised ValueError (leaky.py, line 1) while it was imported: bad redis://…@db/0"),
    ],
)
def test_an_error_for_a_missing_app_names_what_exists(folder: Path, target: str, message: str) -> None:
    write(folder, "good.py", "from headrace import App\napp = App('memory://')\nnumber = 3\n")
    write(folder, "empty.py", "")
    write(folder, "broken.py", "\n1 / 0\n")
    write(folder, "needy.py", "import a_package_that_nobody_has\n")
    write(folder, "leaky.py", "raise ValueError('bad redis://me:hunter2@db/0')\n")

    with pytest.raises(BadConfig) as caught:
        load_app(target)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def write_pyproject(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pyproject.toml"
    file.write_bytes(text.encode("latin-1"))
    return file


def test_the_nearest_file_upward_counts(tmp_path: Path) -> None:
    outer, inner = write_pyproject(tmp_path, "[tool.headrace]\napp = 'outer:app'"), tmp_path / "a/b"
    inner.mkdir(parents=True)

    above = project_file(inner), project_table(inner)
    nearest = write_pyproject(inner, "[tool.headrace]\napp = 'inner:app'")

    assert above == (outer, {"app": "outer:app"})
    assert (project_file(inner), project_table(inner)) == (nearest, {"app": "inner:app"})
    assert project_table(inner.parent) == {"app": "outer:app"}


def test_a_project_that_says_nothing_of_headrace_hides_the_one_above(tmp_path: Path) -> None:
    write_pyproject(tmp_path, "[tool.headrace]\napp = 'outer:app'")
    write_pyproject(tmp_path / "inner", "[project]\nname = 'x'")

    assert project_table(tmp_path / "inner") == {}


def test_a_folder_of_that_name_is_no_project(tmp_path: Path) -> None:
    file = write_pyproject(tmp_path, "[tool.headrace.worker]\ncapacity = 3")
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
def test_an_unreadable_file_is_named(text: str, message: str, tmp_path: Path) -> None:
    file = write_pyproject(tmp_path, text)

    with pytest.raises(BadConfig) as caught:
        project_table(tmp_path)

    assert str(file) in str(caught.value)
    assert message in str(caught.value)
