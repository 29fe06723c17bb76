"""Tables under kills: of the program that brings them forward, between commits, within them, and at any instant."""

import asyncio
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from unittest.mock import patch

import msgspec
from msgspec import Struct, field

from headrace.pipeline.data_dir import GENERATIONS
from headrace.pipeline.storage.location import Location
from headrace.pipeline.storage.table import Form
from headrace.stores.open import open_store
from tests.proof.spark_processes import Tree
from tests.proof.spark_writer import Writer
from tests.proof.table_check import COMPARED, Difference
from tests.proof.table_driver import TableLife
from tests.proof.worker_runs import emptied
from tests.support.s3_server import S3Server

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300
COMMIT_S = 0.03
"""A commit takes some hundredths of a second: a kill comes at any instant of them."""
TURN_S = 8.0
"""A turn takes some seconds."""


class TablePlan(Struct, frozen=True):
    """At what each life ends: within a commit of this table, or when it is None, at any instant of a turn."""

    deaths: tuple[str | None, ...]
    form: Form = "delta"
    is_remote: bool = False
    """On object storage."""
    rounds: int = 60
    """Of the writer: the size of the history."""
    fault: str | None = None


class TableFigures(Struct):
    """What a run did and found."""

    kills: Counter[str] = field(default_factory=Counter)
    """By the table that was being committed, or by what was said last."""
    cut: int = 0
    """Commits that had begun and had not ended when the kill came."""
    turns: int = 0
    again: int = 0
    """Turns that were begun once more."""
    tables: dict[str, Difference] = {}
    seconds: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether every table is the one that was made anew."""
        return set(self.tables) == set(COMPARED) and all(found.is_equal for found in self.tables.values())

    def has_happened(self, plan: TablePlan) -> bool:
        """Whether all lives were ended, and some in the midst of a commit."""
        is_cut = self.cut > 0 or not any(plan.deaths) or plan.fault is not None
        return sum(self.kills.values()) == len(plan.deaths) and self.again > 0 and is_cut


def table_sentence(figures: TableFigures) -> str:
    """The figures in two lines."""
    kills = ", ".join(f"{step} {count}" for step, count in sorted(figures.kills.items()))
    tables = "; ".join(
        f"{name} {found.rows:,} rows, missing {found.missing}, surplus {found.surplus}"
        for name, found in figures.tables.items()
    )
    return (
        f"kills {sum(figures.kills.values())} ({kills}), commits cut {figures.cut}, turns {figures.turns} (again"
        f" {figures.again}), {figures.seconds:.0f} s\n    {tables}"
    )


class TableRun:
    """The tables of one history from their first life to their last."""

    def __init__(self, life: TableLife, errors: Path) -> None:
        self.figures = TableFigures()
        self._life = life
        self._errors = errors
        self._turns: set[str] = set()
        self._random = Random(3)

    def live_and_die(self, table: str | None) -> None:
        """A life that ends within a commit of its second turn, or at any instant of its first or second."""
        is_planted = self._life.fault is not None
        driver = self._start(msgspec.structs.replace(self._life, step="between" if is_planted else None))
        said: list[str] = []
        try:
            lines = self._lines(driver, said)
            self._await(lines, "turn")
            if table is not None:
                self._await(lines, "turn")
                self._await(lines, *(("here",) if is_planted else ("committing", table)))
                time.sleep(0 if is_planted else self._random.uniform(0, COMMIT_S))
            else:
                time.sleep(self._random.uniform(0, TURN_S))
        finally:
            rest = driver.kill()
        self._note(said, rest)
        assert "ended" not in rest, "the history was too short for so many lives"

    def finish(self) -> None:
        """The last life, which compares."""
        driver = self._start(msgspec.structs.replace(self._life, is_last=True, fault=None))
        said: list[str] = []
        try:
            self._await(self._lines(driver, said), "ended")
        finally:
            driver.kill()
        rows = [line.split() for line in said if line.startswith("table ")]
        self.figures.tables = {name: Difference(*map(int, numbers)) for _, name, *numbers in rows}

    def _start(self, life: TableLife) -> Tree:
        words = [sys.executable, "-m", "tests.proof.table_driver", msgspec.json.encode(life).decode()]
        return Tree(words, ROOT, self._errors)

    def _note(self, said: list[str], rest: list[str]) -> None:
        for line in rest:
            if line.startswith("turn "):
                self._note_turn(line)
        last = ([line for line in [*said, *rest] if line.startswith(("turn ", "commit"))] or ["nothing"])[-1]
        is_cut = last.startswith("committing ")
        self.figures.cut += is_cut
        self.figures.kills[("in " if is_cut else "after ") + last.split()[-1] if "commit" in last else "computing"] += 1

    def _note_turn(self, line: str) -> None:
        self.figures.turns += 1
        self.figures.again += line in self._turns
        self._turns.add(line)

    def _lines(self, driver: Tree, said: list[str]) -> Iterator[list[str]]:
        patience = threading.Timer(PATIENCE_S, driver.strike)
        patience.start()
        try:
            for line in driver.lines():
                said.append(line)
                if line.startswith("turn "):
                    self._note_turn(line)
                yield line.split()
        finally:
            patience.cancel()

    def _await(self, lines: Iterator[list[str]], *words: str) -> None:
        for line in lines:
            if line[: len(words)] == [*words]:
                return
        raise AssertionError(f"the program ended before {' '.join(words)}: {self._errors.read_text()[-4_000:]}")


async def run_table_kills(store_name: str, plan: TablePlan, folder: Path) -> TableFigures:
    """Fill a store, run the plan on its history, and compare the tables with those that are made anew."""
    start, url = time.monotonic(), await emptied(store_name, folder)
    store = await open_store(url)
    try:
        writer = Writer(store)
        await writer.begin()
        await writer.write(plan.rounds)
    finally:
        await store.close()
    with ExitStack() as stack:
        home = Location.parse(folder)
        if plan.is_remote:
            server = stack.enter_context(S3Server().launch())
            stack.enter_context(patch.dict(os.environ, server.environment))
            home = Location.parse(server.add_bucket("tables-proof"))
        life = TableLife(url, str(home.child("data")), str(folder), plan.form, fault=plan.fault)
        run = TableRun(life, folder / "errors.log")
        for death in plan.deaths:
            await asyncio.to_thread(run.live_and_die, death)
        await asyncio.to_thread(run.finish)
    run.figures.seconds = time.monotonic() - start
    return run.figures


def long_table_plans() -> dict[str, TablePlan]:
    """The lives of the long run, by name."""
    each = (*COMPARED,)
    mixed = tuple(death for table in each for death in (table, None))
    return {
        "tables, delta": TablePlan(mixed),
        "tables, parquet": TablePlan((*each, None, None), form="parquet"),
        "tables, delta on object storage": TablePlan((GENERATIONS, None, "stats", None), is_remote=True, rounds=40),
        "tables, append": TablePlan(("jobs",), rounds=12, fault="append"),
        "tables, note_too_early": TablePlan(("jobs",), rounds=12, fault="note_too_early"),
    }


async def run_all_table_kills(say: Callable[[str], None]) -> int:
    """Every plan at its full length; returns the number of wrong runs: a planted fault must be found."""
    violations = 0
    for name, plan in long_table_plans().items():
        with tempfile.TemporaryDirectory(prefix="headrace-proof-") as folder:
            figures = await run_table_kills("sqlite", plan, Path(folder))
        is_right = figures.has_happened(plan) and figures.is_exact != bool(plan.fault)
        violations += not is_right
        planted = "the planted fault was found" if plan.fault else "as it must be"
        say(f"spark: {name}: {planted if is_right else 'VIOLATION'}\n    {table_sentence(figures)}")
    return violations
