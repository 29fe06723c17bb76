"""Promises of tools/setup.py: when `.venv` counts as ready, and the error if it cannot be created."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import setup


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with locks, a project and a ready `.venv`, with the Python that runs this test."""
    (tmp_path / "requirements").mkdir()
    for name in (*setup.LOCKS, *setup.PROJECT):
        (tmp_path / name).write_text(f"{Path(name).stem}==1\n")
    write_python(tmp_path, f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    setup.stamp_path(tmp_path).write_text(setup.stamp(tmp_path))
    return tmp_path


def write_python(root: Path, script: str) -> None:
    python = setup.venv_python(root)
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(script)
    python.chmod(0o755)


def test_a_finished_venv_is_left_alone(root: Path) -> None:
    assert setup.decide(root) == setup.READY


def test_a_tree_without_a_venv_gets_one(root: Path) -> None:
    (root / ".venv").rename(root / "gone")

    assert setup.decide(root) == setup.REMAKE


def test_a_half_made_venv_without_its_stamp_is_remade(root: Path) -> None:
    setup.stamp_path(root).unlink()

    assert setup.decide(root) == setup.REMAKE


@pytest.mark.parametrize("content", ["", "\n", "place", "\x00\x00"])
def test_a_stamp_cut_short_is_no_stamp(root: Path, content: str) -> None:
    setup.stamp_path(root).write_text(content)

    assert setup.decide(root) == setup.REMAKE


def test_a_stamp_that_is_not_text_is_no_stamp(root: Path) -> None:
    setup.stamp_path(root).write_bytes(b"\xff\xfe\x00")

    assert setup.decide(root) == setup.REMAKE


def test_a_venv_without_its_python_is_remade(root: Path) -> None:
    setup.venv_python(root).unlink()

    assert setup.decide(root) == setup.REMAKE


def test_a_venv_whose_python_points_nowhere_is_remade(root: Path) -> None:
    setup.venv_python(root).unlink()
    setup.venv_python(root).symlink_to(root / "removed" / "python3.11")

    assert setup.decide(root) == setup.REMAKE


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 1\n", "#!/no/such/interpreter\n", "not a program"])
def test_a_venv_whose_python_does_not_start_is_remade(root: Path, script: str) -> None:
    write_python(root, script)

    assert setup.decide(root) == setup.REMAKE


def test_a_venv_that_was_copied_to_another_place_is_remade(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "copy"
    root.rename(elsewhere)

    assert setup.decide(elsewhere) == setup.REMAKE


@pytest.mark.parametrize("name", setup.LOCKS)
def test_a_changed_lock_is_installed_over_what_is_there(root: Path, name: str) -> None:
    (root / name).write_text("other==2\n")

    assert setup.decide(root) == setup.UPDATE


def test_a_changed_pyproject_installs_only_headrace_again(root: Path) -> None:
    (root / "pyproject.toml").write_text("other")

    assert setup.decide(root) == setup.REINSTALL


def test_the_stamp_is_written_only_after_everything_else(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "requirements/dev.txt").write_text("other==2\n")
    seen: list[bool] = []

    def fail(command: list[str], lock: int, env: dict[str, str] | None = None) -> None:
        seen.append(setup.stamp_path(root).exists())
        raise setup.SetupFailed("no network")

    monkeypatch.setattr(setup, "run", fail)
    with pytest.raises(setup.SetupFailed):
        setup.setup(root)

    assert seen == [False]
    assert setup.decide(root) == setup.REMAKE


def test_a_second_setup_waits_for_the_first_and_then_finds_nothing_to_do(root: Path) -> None:
    ready = setup.stamp_path(root).read_text()
    setup.stamp_path(root).unlink()
    program = "import sys; from pathlib import Path; from tools import setup; setup.setup(Path(sys.argv[1]))"
    first = os.open(root, os.O_RDONLY)
    fcntl.flock(first, fcntl.LOCK_EX)

    second = subprocess.Popen([sys.executable, "-c", program, str(root)], stdout=subprocess.PIPE, text=True)
    assert second.stdout is not None
    waiting = second.stdout.readline()
    setup.stamp_path(root).write_text(ready)
    os.close(first)
    rest, _ = second.communicate()

    assert "waiting" in waiting
    assert rest == ""
    assert second.returncode == 0


def test_an_old_python_is_refused_with_what_to_type() -> None:
    with pytest.raises(setup.SetupFailed, match=r"needs Python 3\.11 or newer and /usr/bin/python3 is 3\.9\.2; type: "):
        setup.refuse_old_python((3, 9, 2), "/usr/bin/python3")


def test_the_oldest_python_we_serve_is_accepted() -> None:
    setup.refuse_old_python((3, 11, 0), "python3")


def test_nothing_is_installed_from_the_system_when_nothing_is_missing() -> None:
    assert setup.system_packages([], (3, 11, 2), is_root=False, apt=None) == []


def test_root_gets_the_venv_package_of_the_python_in_use() -> None:
    packages = setup.system_packages(["ensurepip"], (3, 11, 2), is_root=True, apt="/usr/bin/apt-get")

    assert packages == ["python3.11-venv"]


def test_setup_without_root_prints_the_command_to_type() -> None:
    with pytest.raises(
        setup.SetupFailed, match=r"type: sudo apt-get update && sudo apt-get install -y python3\.11-venv"
    ):
        setup.system_packages(["ensurepip"], (3, 11, 2), is_root=False, apt="/usr/bin/apt-get")


def test_a_system_without_apt_gets_the_list_of_missing_packages() -> None:
    with pytest.raises(setup.SetupFailed, match="no module venv and ensurepip and there is no apt-get"):
        setup.system_packages(["venv", "ensurepip"], (3, 11, 2), is_root=True, apt=None)


def test_names_in_locks_are_compared_as_pip_spells_them(root: Path) -> None:
    (root / setup.LOCKS[0]).write_text("Typing_Extensions==4.1 \\\n    --hash=sha256:00\n")
    (root / setup.LOCKS[1]).write_text("# a comment\nruamel.yaml==1 ; sys_platform == 'win32' \\\n")

    assert setup.locked_names(root) == {"typing-extensions", "ruamel-yaml"}
