"""In SQLite and PostgreSQL a counter that was changed by hand is found by `check` and corrected by `repair`."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.model.integrity import CountMismatch, Findings, Problem, RepairResult
from headrace.model.names import Shard
from headrace.model.outcome import Cancelled, Done
from headrace.model.results import Counts
from headrace.stores.contract.store import Store
from headrace.stores.engine.integrity import recount
from headrace.stores.engine.rows import Rows, Tx
from headrace.stores.engine.step import Step
from headrace.stores.memory.store import MemoryStore
from headrace.stores.postgres.store import PostgresStore
from tests.support.play import Play
from tests.support.servers import postgres_server
from tests.support.stores import STORES

Damager = Callable[[str], None]
"""Runs a statement on the tables of the store, behind its back."""


@pytest.fixture(params=["sqlite", "postgres"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(name: str, tmp_path: Path, runner: asyncio.Runner) -> Iterator[Store]:
    opened = STORES[name](tmp_path)
    yield runner.run(opened.__aenter__())
    runner.run(opened.__aexit__(None, None, None))


@pytest.fixture
def play(store: Store) -> Play:
    return Play(store)


@pytest.fixture
def damage(name: str, tmp_path: Path) -> Damager:
    def in_file(statement: str) -> None:
        with closing(sqlite3.connect(tmp_path / "headrace.db")) as connection, connection:
            connection.execute(statement)

    def in_database(statement: str) -> None:
        with postgres_server().connect() as connection:
            connection.execute("SET search_path TO headrace")
            connection.execute(statement.encode())

    return in_file if name == "sqlite" else in_database


def known(rows: Rows | None) -> Rows:
    """The rows of a shard that must exist."""
    assert rows is not None
    return rows


async def check(play: Play) -> Findings:
    return await play.store.integrity.check(Shard(play.queue, 0), now_ms=play.now_ms)


async def repair(play: Play) -> RepairResult:
    return await play.store.integrity.repair(Shard(play.queue, 0), now_ms=play.now_ms)


async def test_a_counter_that_hides_a_job_is_set_right_and_the_job_runs_once(play: Play, damage: Damager) -> None:
    """K29: the row was never lost."""
    await play.enqueue("job")
    await check(play)  # PostgreSQL then counts the events of its inbox
    damage("UPDATE shard SET ready = ready - 1, later = later + 2")

    found, repaired, again = await check(play), await repair(play), await check(play)

    assert (
        found.count_mismatches
        == repaired.count_mismatches
        == (CountMismatch("ready", 0, 1), CountMismatch("later", 2, 0))
    )
    assert again.ok
    assert await play.counts() == Counts(waiting=1, oldest_due_ms=play.now_ms)
    claim = await play.claim_one()
    assert (await play.settle(claim)).ok
    assert await play.claim_ids() == []
    assert await play.history("job") == ["enqueued", "claimed", "done"]


async def test_every_counter_is_counted_anew(play: Play, damage: Damager) -> None:
    await play.settle(await play.start("done"), Done())
    await play.settle(await play.start("cancelled"), Cancelled())
    await play.die("dead")
    await play.start("active")
    await play.enqueue("active")
    await play.enqueue("ready")
    await play.enqueue("later", delay_ms=60_000)
    await check(play)
    before = await play.snapshot()
    counters = ("ready", "later", "blocked", "active", "done", "cancelled", "dead", "unpinned")
    damage("UPDATE shard SET " + ", ".join(f"{each} = {each} + 5" for each in counters))  # noqa: S608 - our own names

    found, repaired = await check(play), await repair(play)

    assert [each.counter for each in found.count_mismatches] == list(counters)
    assert {each.kept - each.counted for each in repaired.count_mismatches} == {5}
    assert await play.snapshot() == before


@pytest.mark.parametrize("name", ["postgres"], indirect=True)
async def test_what_is_committed_between_numbering_and_counting_is_not_counted_twice(play: Play) -> None:
    assert isinstance(play.store, PostgresStore)
    await play.enqueue("a")
    loop = asyncio.get_running_loop()

    def act(tx: Tx) -> list[CountMismatch]:
        step = Step(known(tx.rows(Shard(play.queue, 0))), play.now_ms)
        step.rows.number()
        asyncio.run_coroutine_threadsafe(play.enqueue("b"), loop).result(10)
        return recount(step)

    wrong = await play.store._engine.write(act)

    assert wrong == []
    assert (await play.counts()).waiting == 2
    assert (await check(play)).ok


async def test_a_blocked_job_behind_nothing_is_merged_into_the_job_that_waits(play: Play, damage: Damager) -> None:
    await play.start("job")
    await play.enqueue("job", payload=b"2")
    await check(play)
    damage("UPDATE job SET fence = NULL, nonce = NULL, lease = NULL, expires_at_ms = NULL")
    damage("UPDATE shard SET active = 0, later = 1")

    found, repaired, again = await check(play), await repair(play), await check(play)

    assert (found.problems, repaired.problems, again.ok) == (
        (Problem("stranded", "job"),),
        (Problem("stranded", "job"),),
        True,
    )
    claim = await play.claim_one()
    assert claim.record.payload == b"2"
    assert (await play.history("job"))[-2:] == ["merged", "claimed"]


async def test_memory_frees_a_blocked_job_behind_nothing() -> None:
    """It keeps no counters beside the rows, so no count can be wrong."""
    store = MemoryStore()
    play = Play(store)
    await play.start("job")
    await play.enqueue("job", payload=b"2")
    known(store._engine.tx.rows(Shard(play.queue, 0))).drop("job")

    found, repaired = await check(play), await repair(play)

    assert (found.problems, repaired.problems) == ((Problem("stranded", "job"),), (Problem("stranded", "job"),))
    assert (await play.claim_one()).record.payload == b"2"
