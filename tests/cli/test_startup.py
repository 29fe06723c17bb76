"""Promises of starting: help comes at once, and a command brings nothing that it does not need."""

import re
import resource
import subprocess
import sys

import pytest

from tests.cli.support import COMMAND, empty_folder, environment

HEAVY = {
    "asyncio",
    "hiredis",
    "multiprocessing",
    "prometheus_client",
    "psycopg",
    "pyarrow",
    "pyspark",
    "sqlite3",
    "uvloop",
}
CPU_FACTOR = 25
"""Help may take this many times the CPU time of a bare Python (some 12 ms): 8 to 10 are usual, compiling included."""


def imported(*words: str) -> set[str]:
    """The modules that a command imports, by what Python itself says."""
    ran = subprocess.run(
        [sys.executable, "-X", "importtime", *COMMAND[1:], *words],
        cwd=empty_folder(),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return set(re.findall(r"^import time:[^|]*\|[^|]*\| +(\S+)$", ran.stderr, re.MULTILINE))


def cpu_s(*command: str) -> float:
    """The CPU time that a program takes from start to end, the least of some runs: what it needs, not who else runs."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=empty_folder(), env=environment(), capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(5))


@pytest.mark.parametrize("words", [("--help",), ("--version",)], ids=" ".join)
def test_help_imports_no_command_no_engine_and_no_tables(words: tuple[str, ...]) -> None:
    modules = imported(*words)

    ours = {name for name in modules if name.startswith("headrace.")}
    assert "headrace.cli.program" in modules
    assert HEAVY & modules == set()
    assert {name for name in modules if name.startswith(("rich.table", "rich.progress", "rich.console"))} == set()
    assert {name.split(".")[1] for name in ours} <= {"_lazy", "app", "cli", "model"}
    assert {name for name in ours if name.startswith("headrace.cli.queues")} == set()


def test_a_command_brings_only_its_own_driver() -> None:
    modules = imported("queues", "--url", "sqlite:///none.db")

    assert "headrace.cli.queues.list" in modules
    assert {"hiredis", "psycopg", "pydantic", "pyspark", "headrace.worker.worker"} & modules == set()
    assert {name for name in modules if name.startswith(("headrace.cli.jobs.", "headrace.stores.redis"))} == set()


def test_help_takes_little_more_than_python_itself() -> None:
    bare, helped = cpu_s(sys.executable, "-c", "pass"), cpu_s(*COMMAND, "--help")

    assert helped < CPU_FACTOR * bare, f"{helped:.3f} s beside {bare:.3f} s"
