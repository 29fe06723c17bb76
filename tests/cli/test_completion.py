"""Promises of completion: shells get their scripts, and real ones complete commands, sub-commands and options."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.commands import COMMANDS
from tests.cli.support import COMMAND, RUN_S, environment, run


def completed(typed: str, cwd: Path | None = None) -> list[str]:
    """What bash is told may stand where the cursor is, at the end."""
    words = typed.split(" ")
    asked = {"_HEADRACE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    ran = run(env=asked, cwd=cwd)
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


def test_zsh_is_told_what_the_words_mean() -> None:
    ran = run(env={"_HEADRACE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "headrace que"})

    assert (ran.code, ran.err) == (0, "")
    assert "queues" in ran.out
    assert "Show queues" in ran.out


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o default -F _headrace_completion headrace"),
        ("zsh", "compdef _headrace_completion headrace"),
        ("fish", "complete --command headrace"),
    ],
)
def test_the_script_of_a_shell_is_printed(shell: str, line: str) -> None:
    ran = run("--completion", shell, env={"SHELL": "/bin/false"})

    assert (ran.code, ran.err) == (0, "")
    assert line in ran.out
    assert "_HEADRACE_COMPLETE" in ran.out


def test_a_shell_that_is_not_known_is_refused() -> None:
    ran = run("--completion", "csh")

    assert (ran.code, ran.out) == (2, "")
    assert "'csh' is no shell that can be completed in; known are bash, zsh, fish" in ran.err


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_real_bash_completes_with_the_script(tmp_path: Path) -> None:
    program = tmp_path / "headrace"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom headrace.cli.main import main\nsys.exit(main())\n")
    program.chmod(0o755)
    script = tmp_path / "completion.bash"
    script.write_text(
        subprocess.run([*COMMAND, "--completion", "bash"], capture_output=True, text=True, check=True).stdout
    )
    typed = 'COMP_WORDS=(headrace queues res); COMP_CWORD=2; _headrace_completion headrace; echo "${COMPREPLY[@]}"'

    ran = subprocess.run(
        ["bash", "--norc", "-c", f"source {script}; {typed}"],
        env=environment() | {"PATH": f"{tmp_path}:/usr/bin:/bin"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )

    assert (ran.stdout, ran.stderr) == ("resume\n", "")
