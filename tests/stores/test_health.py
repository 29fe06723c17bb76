"""Health notes each danger to jobs in a sentence, with what to do about it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.model.errors import StoreUnavailable
from headrace.model.integrity import Schema
from headrace.model.names import Queue
from headrace.model.results import Health
from headrace.stores.open import open_store
from headrace.stores.redis.health import notes_on, server_name
from headrace.stores.redis.library import LAYOUT, read_library
from headrace.stores.sqlite.connection import file_system
from headrace.stores.sqlite.sql import migration_names
from tests.support.postgres_servers import PostgresServer
from tests.support.redis_servers import RedisCluster, RedisServer

MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
filer:/export /srv/my\\040share nfs4 rw 0 0
/dev/sdb1 /srv/my\\040share/local xfs rw 0 0
"""


async def health_of(url: str) -> Health:
    store = await open_store(url)
    try:
        return await store.health()
    finally:
        await store.close()


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """A durable Redis whose settings are changed by the tests."""
    with RedisServer(aof="always") as server:
        yield server.launch()


@pytest.fixture
def on_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on a network file system, by the list of mounts."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"filer:/export {tmp_path.resolve()} nfs4 rw 0 0\n", "utf-8")
    monkeypatch.setattr("headrace.stores.sqlite.connection.MOUNTS", mounts)
    return tmp_path


async def test_memory_notes_that_its_jobs_go_with_the_process() -> None:
    health = await health_of("memory://")

    assert health.notes == ("every job is gone with this process; use sqlite:///headrace.db to keep them",)
    assert (health.server, health.schema) == ("this process", None)


async def test_a_durable_file_has_no_notes_and_a_fast_file_notes_what_it_may_lose(tmp_path: Path) -> None:
    durable = await health_of(f"sqlite:///{tmp_path}/headrace.db")
    fast = await health_of(f"sqlite:///{tmp_path}/headrace.db?profile=fast")

    steps = len(migration_names())
    assert (durable.notes, durable.schema) == ((), Schema(found=steps, known=steps))
    assert durable.server == f"SQLite {durable.version}"
    assert [note.partition(":")[0] for note in fast.notes] == ["profile=fast"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/headrace.db", "ext4"),
        ("/srv/my share/headrace.db", "nfs4"),
        ("/srv/my share/local/headrace.db", "xfs"),
        ("/srv/my shared/headrace.db", "ext4"),
    ],
)
def test_the_file_system_of_a_path_is_that_of_the_nearest_mount(path: str, kind: str) -> None:
    assert file_system(path, MOUNTS) == kind
    assert file_system(path, "") == ""


async def test_a_file_on_a_network_is_noted(on_network: Path) -> None:
    health = await health_of(f"sqlite:///{on_network}/headrace.db")

    [note] = health.notes
    assert "is on a network file system (nfs4)" in note
    assert note.endswith("; move it to a local disk")


async def test_a_durable_redis_has_no_notes_and_names_its_library(server: RedisServer) -> None:
    health = await health_of(server.url)

    assert (health.notes, health.server) == ((), f"Redis {health.version}")
    assert health.schema == Schema(found=LAYOUT, known=LAYOUT, library=read_library().name)


async def test_a_redis_whose_settings_are_changed_while_it_is_open_is_noted(server: RedisServer) -> None:
    store = await open_store(server.url)
    server.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", "1mb", "appendonly", "no")

    health = await store.health()
    server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "0", "appendonly", "yes")

    await store.close()
    where = f"redis at 127.0.0.1:{server.port}"
    assert health.notes[:2] == (
        f"{where} may evict keys (maxmemory-policy allkeys-lru); set it to noeviction, jobs would vanish",
        (
            f"{where} keeps no append-only file, so its next crash or restart loses all since the last snapshot;"
            " set appendonly yes"
        ),
    )
    [memory] = health.notes[2:]
    assert memory.startswith(f"{where} has used ")
    assert memory.endswith("; raise it, or let workers catch up")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"used_memory": "79", "maxmemory": "100"}, None),
        ({"used_memory": "80", "maxmemory": "100"}, "has used 80 % of its maxmemory"),
        ({"used_memory": "80", "maxmemory": "0"}, None),
        ({"rdb_last_bgsave_status": "err"}, "could not write to its disk (rdb_last_bgsave_status: err)"),
        ({"connected_slaves": "1"}, "has 1 of the 2 replicas"),
        ({"connected_slaves": "2"}, None),
    ],
)
def test_the_settings_of_a_server_become_notes(facts: dict[str, str], words: str | None) -> None:
    notes = notes_on("host:1", {"connected_slaves": "2", **facts}, 2)

    assert [words for note in notes if words and words in note] == ([words] if words else [])
    assert len(notes) == (0 if words is None else 1)


def test_a_valkey_is_called_by_its_name() -> None:
    facts = {"redis_version": "7.2.4", "server_name": "valkey", "valkey_version": "8.1.0"}

    assert server_name(facts) == "Valkey 8.1.0"
    assert server_name({"redis_version": "7.2.4"}) == "Redis 7.2.4"


async def test_a_master_of_a_cluster_that_is_away_is_noted_and_the_others_still_answer() -> None:
    with RedisCluster(masters=3).launch() as cluster:
        store = await open_store(cluster.url)
        await store.queues.configure(Queue("mail", "acme"), {"priority": 3})
        gone = cluster.servers[0]
        gone.kill()

        health = await store.health()
        for server in cluster.servers[1:]:
            server.kill()
        with pytest.raises(StoreUnavailable, match="none of the 3 masters"):
            await store.health()

        await store.close()
    away = [note for note in health.notes if f"127.0.0.1:{gone.port} of the cluster does not answer" in note]
    assert len(away) == 1


async def test_postgres_notes_what_is_switched_off_and_connections_that_run_out() -> None:
    settings = {"max_connections": 8, "superuser_reserved_connections": 3, "autovacuum": "off"}
    with PostgresServer(fsync=False, settings=settings).launch() as server:
        store = await open_store(f"{server.url}?profile=fast")
        calm = await store.health()
        others = [server.connect() for _ in range(3)]
        crowded = await store.health()
        for each in others:
            each.close()
        await store.close()

    assert [note.partition(";")[0].rpartition(" has ")[2].partition(":")[0] for note in calm.notes][1:] == [
        "fsync and full_page_writes off",
        "autovacuum off",
    ]
    assert calm.notes[0].startswith("profile=fast: synchronous_commit is off")
    assert calm.server == f"PostgreSQL {calm.version}"
    assert calm.schema is not None
    assert calm.schema.found == calm.schema.known
    assert "of 5 connections in use; raise max_connections" in crowded.notes[-1]
