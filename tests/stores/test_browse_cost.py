"""The cost of a page of a view: the same in a queue of a hundred jobs as in one of a hundred thousand."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.model.policy import Policy
from headrace.model.results import View
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from headrace.stores.postgres.connection import connect, settings_of
from headrace.stores.postgres.sql import sql as postgres_sql
from headrace.stores.sqlite.finished_rows import KEY_BITS
from headrace.stores.sqlite.sql import sql as sqlite_sql
from tests.support.play import Play
from tests.support.redis_servers import RedisServer
from tests.support.schemas import new_schema
from tests.support.server_cleanup import flush
from tests.support.servers import PASSWORD, USER, redis_server

LIMIT = 5
FEW, MANY = 100, 100_000
VIEWS: tuple[View, ...] = ("next", "later", "active", "finished")
STATEMENTS: dict[str, list[object]] = {
    "job_page_ready": [0],
    "job_page_later": [0, ""],
    "job_page_active": [0, ""],
    "job_ready_before": [2**60],
}
"""Statements on jobs with their arguments between the shard and the limit."""


async def fill(store: Store, count: int) -> None:
    """A quarter of the jobs each ready, later, active and finished, the finished ones half of them pinned."""
    play = Play(store)
    ids = [f"job-{number:06}" for number in range(count)]
    for start in range(0, count, 1_000):
        batch = [
            play.job(
                id,
                payload=b"1",
                delay_ms=1_000 if int(id[4:]) % 4 == 3 else None,
                policy=Policy(result_ttl_ms=10**9 if int(id[4:]) % 2 else None),
            )
            for id in ids[start : start + 1_000]
        ]
        await play.enqueue_all(*batch)
    await play.configure(keep_done_max=count)
    left = count // 2
    while left:
        claims = await play.claim(min(left, 1_000), lease_ms=3_600_000)
        left -= len(claims)
        done = [claim.settle(Done()) for claim in claims[::2]]
        await store.jobs.settle(done, now_ms=play.now_ms)


def run(url: str, count: int) -> None:
    """Fill the store at a URL."""

    async def act() -> None:
        store = await open_store(url)
        await fill(store, count)
        await store.close()

    asyncio.run(act())


def finished_keys(pinned: int) -> list[int]:
    """The arguments of finished_job_page for the first shard of a file."""
    base = (1 << KEY_BITS) + (pinned << KEY_BITS - 1)
    return [base, base + (1 << KEY_BITS - 1)]


def sqlite_steps(path: Path, name: str, *args: object) -> int:
    """The steps of SQLite's machine for a statement."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(sqlite3.connect(path)) as connection:
        connection.set_progress_handler(count, 1)
        assert connection.execute(sqlite_sql(name), args).fetchall()
    return steps


def test_a_page_costs_sqlite_the_same_steps_in_a_long_queue(tmp_path: Path) -> None:
    paths = {count: tmp_path / f"{count}.db" for count in (FEW, MANY)}
    for count, path in paths.items():
        run(f"sqlite:///{path}?profile=fast", count)

    cases: list[tuple[Any, ...]] = [(name, 1, *args, LIMIT) for name, args in STATEMENTS.items()] + [
        ("finished_job_page", *finished_keys(pinned), LIMIT) for pinned in (0, 1)
    ]
    for case in cases:
        few, many = (sqlite_steps(path, *case) for path in paths.values())
        assert many <= few + 5, case


def rows_read(plan: dict[str, Any]) -> int:
    """The rows that all nodes of a plan have read, those that they filtered among them."""
    own = plan["Actual Loops"] * (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0))
    return int(own) + sum(map(rows_read, plan.get("Plans", [])))


def postgres_rows(url: str, name: str, *args: object) -> int:
    """The rows that PostgreSQL reads for a statement."""
    with closing(connect(settings_of(url))) as connection:
        [(shard_id,)] = connection.execute("SELECT min(shard_id) FROM shard").fetchall()
        found = connection.execute(
            b"EXPLAIN (ANALYZE, FORMAT JSON) " + postgres_sql(name), (shard_id, *args)
        ).fetchall()
    [(explained,)] = found
    return rows_read(explained[0]["Plan"])


def test_a_page_costs_postgres_the_same_rows_in_a_long_queue() -> None:
    cases: list[tuple[Any, ...]] = [(name, *args, LIMIT) for name, args in STATEMENTS.items()]
    cases += [(f"finished_job_page_{kind}", 2**63 - 1, LIMIT) for kind in ("unpinned", "pinned")]
    found: dict[int, list[int]] = {}
    for count in (FEW, MANY):
        with new_schema() as url:
            run(url, count)
            found[count] = [postgres_rows(url, *case) for case in cases]

    assert found[MANY] == found[FEW]
    assert max(found[MANY]) <= 3 * LIMIT


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """An empty server that tests may look into."""
    flush([redis_server()])
    yield redis_server()
    flush([redis_server()])


async def redis_commands(server: RedisServer, store: Store, view: View) -> int:
    """The commands that a page takes on the server, those of its functions among them."""

    def total() -> int:
        with server.admin() as client:
            stats: dict[str, dict[str, int]] = client.info("commandstats")
        return sum(each["calls"] for name, each in stats.items() if name != "cmdstat_info")

    before = total()
    await store.reads.browse(Queue("mail", "acme"), view, limit=LIMIT)
    return total() - before


def test_a_page_costs_redis_the_same_commands_in_a_long_queue(server: RedisServer) -> None:
    url = server.url_of(USER, PASSWORD)

    async def measure(count: int) -> list[int]:
        store = await open_store(url)
        await fill(store, count)
        found = [await redis_commands(server, store, view) for view in VIEWS]
        await store.close()
        return found

    few = asyncio.run(measure(FEW))
    flush([server])
    many = asyncio.run(measure(MANY))

    assert many == few
    assert max(many) <= 20
