"""Runs tests of the conformance suite in a forked process, in which a fault may be planted."""

import gc
import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import servers
from tests.support.forkserver import CONTEXT

ROOT = Path(__file__).parents[2]
OPTIONS = ["-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "-p", "no:unraisableexception"]
"""Without the plugin for unraisable errors: it collects garbage first, which takes a third of the time."""


class RunResult(NamedTuple):
    """The results of tests, up to the first that did not pass."""

    failed: list[str]
    """Tests that failed."""
    errors: list[str]
    """Tests whose fixtures failed."""
    passed: int
    output: str
    """The end of the output of pytest."""


class OutcomeCollector:
    """A plugin of pytest that collects the results of tests."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.errors: list[str] = []
        self.passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each part of a test."""
        if report.failed:
            (self.failed if report.when == "call" else self.errors).append(report.nodeid)
        self.passed += report.passed and report.when == "call"


def run_isolated(store: str, tests: Sequence[str], log: Path, fault: str | None = None) -> RunResult:
    """Run tests of the conformance suite on a store up to the first failure, after planting a fault if one is named.

    They use the servers of this process, which waits for them.
    """
    here, there = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_run, args=(there, servers.lend(store), store, list(tests), str(log), fault))
    process.start()
    there.close()
    try:
        failed, errors, passed = here.recv()
    except EOFError:  # the process died: only its output is left
        failed, errors, passed = [], [], 0
    process.join()
    here.close()
    return RunResult(failed, errors, passed, log.read_text(errors="replace")[-1_000:])


def _run(answer: "Connection", lent: dict[str, int], store: str, tests: list[str], log: str, fault: str | None) -> None:
    with Path(log).open("wb") as output:
        os.dup2(output.fileno(), sys.stdout.fileno())
        os.dup2(output.fileno(), sys.stderr.fileno())
    os.chdir(ROOT)
    gc.freeze()  # the collector need not traverse what was imported before the fork
    # No conformance test uses plugins of other packages: their import takes longer than most tests, and pytest would
    # warn that it cannot rewrite those that are imported already.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    servers.borrow(lent)
    collector = OutcomeCollector()
    planted = [] if fault is None else [f"--fault={fault}"]
    # In a folder of its own: otherwise concurrent runs would delete each other's folders.
    basis = [f"--basetemp={log}.tmp", f"--stores={store}", "--everything"]
    try:
        pytest.main([*OPTIONS, *basis, *planted, *tests], plugins=[collector])
    finally:
        answer.send((collector.failed, collector.errors, collector.passed))
