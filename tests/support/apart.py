"""Runs tests apart, on a store that may be broken there: each in a fork of a process that has imported everything."""

import gc
import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import servers
from tests.support.forking import CONTEXT

ROOT = Path(__file__).parents[2]
OPTIONS = ["-x", "-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", "-p", "no:unraisableexception"]
"""Whoever looks for errors that nobody can raise collects all garbage first, which takes a third of the time."""


class Seen(NamedTuple):
    """How tests have ended, up to the first that did not pass."""

    failed: list[str]
    """Those whose promise was broken."""
    broken: list[str]
    """Those that never began, since what they need could not be opened."""
    passed: int
    said: str
    """The end of what pytest said."""


class Witness:
    """Writes down how tests end."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.broken: list[str] = []
        self.passed = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Called by pytest for each part of a test."""
        if report.failed:
            (self.failed if report.when == "call" else self.broken).append(report.nodeid)
        self.passed += report.passed and report.when == "call"


def run_apart(store: str, tests: Sequence[str], log: Path, fault: str | None = None) -> Seen:
    """Run tests of the conformance suite on a store up to the first failure, after planting a fault if one is named.

    They use the servers of this process, which waits for them.
    """
    here, there = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=_run, args=(there, servers.lend(store), store, list(tests), str(log), fault))
    process.start()
    there.close()
    try:
        failed, broken, passed = here.recv()
    except EOFError:  # it died: what it said is all there is
        failed, broken, passed = [], [], 0
    process.join()
    here.close()
    return Seen(failed, broken, passed, log.read_text(errors="replace")[-1_000:])


def _run(answer: "Connection", lent: dict[str, int], store: str, tests: list[str], log: str, fault: str | None) -> None:
    with Path(log).open("wb") as said:
        os.dup2(said.fileno(), sys.stdout.fileno())
        os.dup2(said.fileno(), sys.stderr.fileno())
    os.chdir(ROOT)
    gc.freeze()  # what was imported before the fork stays, and need not be looked through
    # No example uses the plugins of other packages: to import them took longer than most tests, and pytest would warn
    # that it cannot rewrite those that are imported already.
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    servers.borrow(lent)
    witness = Witness()
    planted = [] if fault is None else [f"--fault={fault}"]
    # In a folder of its own: otherwise it would clear away those of earlier runs, and stumble over others that do so.
    basis = [f"--basetemp={log}.tmp", f"--stores={store}", "--everything"]
    try:
        pytest.main([*OPTIONS, *basis, *planted, *tests], plugins=[witness])
    finally:
        answer.send((witness.failed, witness.broken, witness.passed))
