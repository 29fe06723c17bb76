"""History under kills: of the driver with all its processes at every step of a batch, and of single executors."""

import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from unittest.mock import patch

import msgspec
import pyarrow.parquet as pq

from headrace.pipeline.storage.location import Location
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.proof.history_reader import Looks
from tests.proof.spark_check import behind, compare, counted_by_duckdb, journal_of, wrong_rows
from tests.proof.spark_driver import CLUSTER, Life
from tests.proof.spark_figures import Death, KillFigures, Plan, executor_steps, sentence
from tests.proof.spark_processes import Tree
from tests.proof.spark_steps import PARQUET_STEPS, STEPS, STORAGE_STEPS
from tests.proof.spark_writer import writing
from tests.proof.worker_runs import emptied
from tests.support.s3_server import S3Server

ROOT = Path(__file__).parents[2]
CONSUMER = "history"
EVENTS_MAX = 600
DRAIN_MAX = 50_000
PATIENCE_S = 240
"""A life takes some ten seconds, and some more for each executor that is to lose a task."""
FIRST_ROUNDS = 40
"""What is there at the beginning: enough for some batches."""


class Run:
    """One history from its first life to its last."""

    def __init__(self, url: str, plan: Plan, folder: Path, bucket: str | None) -> None:
        self.figures = KillFigures()
        self.history = Location.parse(folder if bucket is None else bucket).child("history")
        self.errors = folder / "errors.log"
        self._plan = plan
        self._life = Life(url, str(self.history), str(folder), plan.form, events_max=EVENTS_MAX, fault=plan.fault)
        self._begun: set[int] = set()
        self._busy: list[str] = []
        """The executors that have a task, as the driver said last."""
        self._lost = 0
        """Tasks that have failed in this life."""

    def live_and_die(self, death: Death, after: int) -> None:
        """A life that ends at a step of its batch after so many others."""
        life = msgspec.structs.replace(self._life, step=death.step, after=after)
        if death.executors:
            life = msgspec.structs.replace(life, master=CLUSTER, after=1_000_000)
        driver = self._start("tests.proof.spark_driver", msgspec.json.encode(life).decode())
        compactor = self._start("tests.proof.spark_compaction", str(self.history)) if death.compacts else None
        try:
            lines = self._lines(driver, PATIENCE_S * (1 + death.executors))
            if death.executors:
                self._kill_executors(driver, lines, death)
            else:
                self._await(lines, "here", death.step)
        finally:
            self.figures.processes += len(driver.pids())
            driver.kill()
            if compactor is not None:
                self._note_merges(compactor.kill())
        self.figures.kills[death.step] += 1

    def drain(self) -> None:
        """The last life, which reaches the end."""
        life = msgspec.structs.replace(self._life, once=True, count=True, events_max=DRAIN_MAX)
        driver = self._start("tests.proof.spark_driver", msgspec.json.encode(life).decode())
        try:
            self._await(self._lines(driver), "ended")
        finally:
            driver.kill()

    def _start(self, program: str, argument: str) -> Tree:
        return Tree([sys.executable, "-m", program, argument], ROOT, self.errors)

    def _kill_executors(self, driver: Tree, lines: Iterator[list[str]], death: Death) -> None:
        """Each time in the midst of a batch; that one, and the next, come to their end without anybody's help."""
        self._busy, self._lost = [], 0
        self._await(lines, "step", "over")
        for step in executor_steps(death).elements():
            before = self._lost
            # A task that ends at this very moment is not lost: then another batch is waited for.
            while self._lost == before:
                self._await(lines, "step", step)
                if not self._busy:
                    self._await(lines, "busy")
                self.figures.executors += sum(driver.kill_executor(id) for id in self._busy[:1])
                self._await(lines, "step", "over")
                self._await(lines, "step", "over")
            self.figures.lost[step] += 1
        self._await(lines, "step", death.step)

    def _note_merges(self, lines: list[str]) -> None:
        self.figures.merges += sum(int(line.split()[1]) for line in lines if line.startswith("compacted "))
        self.figures.compactors += lines[-1:] != [] and lines[-1].startswith("step ")

    def _lines(self, driver: Tree, patience_s: int = PATIENCE_S) -> Iterator[list[str]]:
        # A life that gets nowhere ends, too: then nothing more is read.
        patience = threading.Timer(patience_s, driver.strike)
        patience.start()
        try:
            for line in driver.lines():
                words = line.split()
                if words[:2] == ["step", "begun"]:
                    self.figures.again += int(words[2]) in self._begun
                    self._begun.add(int(words[2]))
                if words[:1] == ["busy"]:
                    self._busy = words[1:]
                if words[:1] == ["lost"]:
                    self._lost = int(words[1])
                yield words
        finally:
            patience.cancel()

    def _await(self, lines: Iterator[list[str]], *words: str) -> None:
        for line in lines:
            if line[: len(words)] == [*words]:
                return
        raise AssertionError(f"the driver ended before {' '.join(words)}; it said: {self.errors.read_text()[-4_000:]}")


async def run_kills(url: str, plan: Plan, folder: Path) -> KillFigures:
    """Run the plan, drain, and compare the rows of Spark and DuckDB with the store's journal."""
    with ExitStack() as stack:
        bucket = None
        if plan.is_remote:
            server = stack.enter_context(S3Server().launch())
            stack.enter_context(patch.dict(os.environ, server.environment))
            bucket = server.add_bucket("history-proof")
        return await _run_kills(url, plan, folder, bucket)


async def _run_kills(url: str, plan: Plan, folder: Path, bucket: str | None) -> KillFigures:
    start, run, random = time.monotonic(), Run(url, plan, folder, bucket), Random(1)
    looks = Looks(run.history)
    async with writing(url) as writer, looks.beside():
        await writer.write(FIRST_ROUNDS)
        writer.is_writing.set()
        for death in plan.deaths:
            await asyncio.to_thread(run.live_and_die, death, random.randint(0, 2))
    await asyncio.to_thread(run.drain)
    looks.look()
    store = await open_store(url)
    try:
        await check(run, store)
    finally:
        await store.close()
    run.figures.looks, run.figures.odd_looks = looks.looks, looks.odd
    run.figures.seconds = time.monotonic() - start
    return run.figures


async def check(run: Run, store: Store) -> None:
    """Count everything twice, and look at rows and at the consumer."""
    journal, figures = await journal_of(store), run.figures
    figures.events = len(journal)
    figures.duckdb = compare(journal, counted_by_duckdb(run.history))
    figures.spark = compare(journal, pq.read_table(run.errors.with_name("counted.parquet")))
    figures.wrong = wrong_rows(run.history, journal)
    figures.behind = await behind(store, CONSUMER)


def long_plans() -> dict[str, tuple[str, Plan]]:
    """The lives of the long run, by name, each with its store."""
    plain = tuple(Death(step) for step in STEPS)
    beside = tuple(Death(step, compacts=True) for step in STEPS)
    remote = tuple(Death(step, compacts=True) for step in STORAGE_STEPS)
    executors = (Death("advanced", executors=4),)
    return {
        "delta on sqlite": ("sqlite", Plan(plain + beside + executors)),
        "delta on redis": ("redis", Plan(beside + executors)),
        "delta on object storage": ("redis", Plan(remote, is_remote=True)),
        "parquet on sqlite": (
            "sqlite",
            Plan(tuple(Death(step, compacts=True) for step in PARQUET_STEPS), form="parquet"),
        ),
        "append": ("sqlite", Plan((Death("between"),), fault="append")),
        "note_too_early": ("sqlite", Plan((Death("between"),), fault="note_too_early")),
    }


async def run_all_kills(say: Callable[[str], None]) -> int:
    """Every plan at its full length; returns the number of wrong runs: a planted fault must be found."""
    violations = 0
    for name, (store_name, plan) in long_plans().items():
        with tempfile.TemporaryDirectory(prefix="headrace-proof-") as folder:
            figures = await run_kills(await emptied(store_name, Path(folder)), plan, Path(folder))
        is_right = not figures.is_exact if plan.fault else figures.is_exact and figures.has_happened(plan)
        violations += not is_right
        planted = "the planted fault was found" if plan.fault else "as it must be"
        say(f"spark: {name}: {planted if is_right else 'VIOLATION'}\n    {sentence(figures)}")
    return violations
