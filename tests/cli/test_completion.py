"""Promises of completion: a shell completes commands, sub-commands and options."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.program import COMMANDS
from tests.cli.support import RUN_S, environment, run


def completed(typed: str, cwd: Path | None = None) -> list[str]:
    """What bash is told may stand where the cursor is, at the end."""
    words = typed.split(" ")
    environment = {"_HEADRACE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    ran = run(env=environment, cwd=cwd)
    assert (ran.code, ran.err) == (0, "")
    return ran.out.split()


def test_commands_sub_commands_and_options_are_completed() -> None:
    assert completed("headrace ") == [*COMMANDS]
    assert completed("headrace wor") == ["worker", "workers"]
    assert completed("headrace queues p") == ["pause", "purge"]
    assert completed("headrace queues purge --ye") == ["--yes"]


def test_completion_does_not_mind_a_broken_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.headrace]\nxyzzy = 1\n")

    assert completed("headrace queues pu", cwd=tmp_path) == ["purge"]


def test_zsh_shows_what_the_words_mean() -> None:
    ran = run(env={"_HEADRACE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "headrace que"})

    assert (ran.code, ran.err) == (0, "")
    assert "queues" in ran.out
    assert "Show, pause" in ran.out


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with `headrace` as a program."""
    program = tmp_path / "headrace"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom headrace.cli.main import main\nsys.exit(main())\n")
    program.chmod(0o755)
    return tmp_path


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_real_bash_completes_with_the_script_that_it_is_shown(program: Path) -> None:
    typed = (
        'eval "$(headrace --show-completion)"; COMP_WORDS=(headrace queues res); COMP_CWORD=2;'
        ' _headrace_completion headrace; echo "${COMPREPLY[@]}"'
    )

    ran = subprocess.run(
        ["bash", "--norc", "-c", typed],
        env=environment() | {"PATH": f"{program}:/usr/bin:/bin"},
        cwd=program,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )

    assert (ran.stdout, ran.stderr) == ("resume\n", "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_completion_is_installed_for_the_shell_in_use(program: Path) -> None:
    ran = subprocess.run(
        ["bash", "--norc", "-c", "headrace --install-completion; true"],
        env=environment() | {"PATH": f"{program}:/usr/bin:/bin", "HOME": str(program)},
        cwd=program,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )

    assert "bash completion installed in" in ran.stdout, ran
    assert "headrace.sh" in (program / ".bashrc").read_text()
