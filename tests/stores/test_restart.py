"""Restart: a server is killed and comes back in the midst of the work, and nothing is lost, invented or done twice."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.stores.open import open_store
from tests.support.play import Play
from tests.support.postgres_servers import PostgresServer
from tests.support.process import Server
from tests.support.redis_servers import RedisCluster, RedisServer
from tests.support.workload import Workload

CALLS = 30
ERRORS = 4
"""How many calls fail before the server comes back: as many as there are hands, and a call may be patient."""


@contextmanager
def lone_redis() -> Iterator[tuple[str, Server]]:
    """A Redis that keeps what it has answered."""
    with RedisServer(aof="always").launch() as server:
        yield server.url, server


@contextmanager
def cluster_member() -> Iterator[tuple[str, Server]]:
    """A cluster that keeps what it has answered, and the member of the first shard."""
    with RedisCluster(aof="always").launch() as cluster:
        slot = cluster.servers[0].ask("CLUSTER", "KEYSLOT", "hr:{acme/mail/0}:m")
        yield cluster.url, cluster.servers[slot * len(cluster.servers) // 16_384]


@contextmanager
def lone_postgres() -> Iterator[tuple[str, Server]]:
    """A PostgreSQL that keeps what it has answered."""
    with PostgresServer(fsync=True).launch() as server:
        yield server.url, server


SERVERS = {"redis": lone_redis, "redis-cluster": cluster_member, "postgres": lone_postgres}


@pytest.mark.parametrize(
    ("name", "shards", "kills"), [("redis", 1, 4), ("redis", 3, 4), ("redis-cluster", 3, 2), ("postgres", 3, 2)]
)
async def test_workers_continue_after_the_server_was_killed_and_nothing_is_lost_or_done_twice(
    name: str, shards: int, kills: int
) -> None:
    """T23, KB1: errors that the contract names, true answers, and a journal that has each job once."""
    with SERVERS[name]() as (url, server):
        store = await open_store(url)
        play = Play(store, shards)
        workload = Workload(store, play.queue)

        async def come_and_go(workload: Workload) -> None:
            await workload.until(lambda: len(workload.answers) == 4)
            for _ in range(kills):
                await workload.until_all_go_on(CALLS)
                server.kill()
                await workload.until_errors(ERRORS)
                server.start_soon()
                await asyncio.to_thread(server.wait_ready)
                await workload.until_all_go_on(1)

        await workload.run(come_and_go)

        events = await play.events()
        await store.close()
    assert set(workload.errors) <= {StoreUnavailable, OutcomeUnknown}
    assert len(workload.enqueued) > kills * CALLS
    workload.check(events)
