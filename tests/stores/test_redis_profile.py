"""What a Redis server promises, and the servers that are refused."""

from collections.abc import Iterator

import pytest

from headrace.model.errors import BadConfig
from headrace.stores.redis.connections.topology import Single
from headrace.stores.redis.durability import Profile, check_servers
from tests.support.proxy import saying
from tests.support.redis_client import options_from
from tests.support.redis_servers import RedisServer

GUEST = "user guest on >guest ~* &* +@all -config"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """A Redis whose settings are changed by the tests."""
    with RedisServer(aof="always", users=[GUEST]) as server:
        yield server.launch()


@pytest.fixture(autouse=True)
def settings(server: RedisServer) -> None:
    """The settings of a durable server."""
    server.ask("CONFIG", "SET", "appendonly", "yes", "appendfsync", "always", "maxmemory-policy", "noeviction")


async def profile_of(url: str) -> Profile:
    """What a server promises; raises when it is refused."""
    options = options_from(url)
    topology = Single(options)
    try:
        return await check_servers(await topology.masters(), options)
    finally:
        await topology.close()


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        (("appendfsync", "always"), "durable", "survives the death of the server and a power cut"),
        (("appendfsync", "everysec"), "fast", "a power cut may lose the last second"),
        (("appendfsync", "no"), "fast", "a power cut may lose half a minute"),
        (("appendonly", "no"), "fast", "only what is in the last snapshot survives"),
    ],
)
async def test_the_profile_follows_from_the_settings_and_says_what_may_be_lost(
    server: RedisServer, change: tuple[str, str], name: str, words: str
) -> None:
    server.ask("CONFIG", "SET", *change)

    profile = await profile_of(server.url)

    assert profile.name == name
    assert words in profile.promise
    assert profile.version.startswith(("7.", "8.", "9."))


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
@pytest.mark.parametrize("user", ["", "guest:guest@"])
async def test_a_server_that_may_evict_is_refused(server: RedisServer, policy: str, user: str) -> None:
    server.ask("CONFIG", "SET", "maxmemory-policy", policy)

    with pytest.raises(BadConfig) as refused:
        await profile_of(server.url.replace("redis://", f"redis://{user}"))

    assert str(refused.value) == (
        f"redis at 127.0.0.1:{server.port} may evict keys (maxmemory-policy {policy}); set it to noeviction, jobs would"
        " vanish"
    )


@pytest.mark.parametrize("change", [("appendfsync", "everysec"), ("appendonly", "no")])
async def test_a_server_that_does_not_keep_the_profile_asked_for_is_refused(
    server: RedisServer, change: tuple[str, str]
) -> None:
    server.ask("CONFIG", "SET", *change)

    for profile in ("durable", "replicated"):
        with pytest.raises(BadConfig) as refused:
            await profile_of(f"{server.url}?profile={profile}")
        assert "set appendonly yes and appendfsync always" in str(refused.value)


async def test_a_server_that_hides_its_settings_is_fast_and_says_why(server: RedisServer) -> None:
    url = server.url_of("guest", "guest")

    profile = await profile_of(url)

    assert profile.name == "fast"
    assert "CONFIG is forbidden" in profile.promise
    with pytest.raises(BadConfig, match="cannot be checked"):
        await profile_of(f"{url}?profile=durable")


async def test_replicated_needs_replicas_and_a_master_that_counts_them(server: RedisServer) -> None:
    url = f"{server.url}?profile=replicated"

    with pytest.raises(BadConfig, match="has 0 replicas"):
        await profile_of(url)
    with RedisServer(replica_of=server) as replica:
        replica.launch()
        with pytest.raises(BadConfig, match="min-replicas-to-write"):
            await profile_of(url)
        server.ask("CONFIG", "SET", "min-replicas-to-write", 1)
        profile = await profile_of(url)
        with pytest.raises(BadConfig, match="has 1 replicas and profile=replicated needs 2"):
            await profile_of(f"{url}&replicas=2")
        with pytest.raises(BadConfig, match="is a replica"):
            await profile_of(replica.url)
    server.ask("CONFIG", "SET", "min-replicas-to-write", 0)

    assert (profile.name, profile.replicas) == ("replicated", 1)
    assert "writes stop while fewer are there" in profile.promise


@pytest.mark.parametrize(
    ("facts", "hint"),
    [
        ("redis_version:6.2.14\r\nrole:master\r\n", "version 6.2.14; Headrace needs 7.0"),
        ("redis_version:7.0.0\r\nredis_mode:sentinel\r\n", "redis+sentinel://"),
        ("redis_version:7.0.0\r\nredis_mode:cluster\r\n", "redis+cluster://"),
        ("redis_version:7.0.0\r\nrole:slave\r\n", "name its master"),
    ],
)
async def test_a_server_that_cannot_be_used_is_refused_with_what_to_do(facts: str, hint: str) -> None:
    async with saying(f"${len(facts)}\r\n{facts}\r\n-ERR unknown\r\n".encode()) as port:
        with pytest.raises(BadConfig) as refused:
            await profile_of(f"redis://127.0.0.1:{port}")

    assert hint in str(refused.value)
