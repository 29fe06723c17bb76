"""The client of several servers: cluster, Sentinel and replicas; slots that move, masters that die."""

import asyncio
from collections.abc import Iterator

import pytest

from headrace.model.errors import BadConfig, OutcomeUnknown, StoreUnavailable
from headrace.stores.redis.client import ServerCall
from headrace.stores.redis.connections.topology import slot_of
from tests.support.process import free_port, wait_until
from tests.support.redis_client import COUNT, KEY, Callers, echo, open_client
from tests.support.redis_servers import RedisCluster, RedisSentinel, RedisServer
from tests.support.servers import redis_server

KEYS = [f"hr:{{acme/mail/{index}}}:m" for index in range(30)]
"""The keys of as many shards, on all masters."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    """A cluster of this file's own, whose slots are moved about."""
    with RedisCluster() as cluster:
        yield cluster.launch()


@pytest.fixture(autouse=True)
def emptied(request: pytest.FixtureRequest) -> None:
    """Tests on the cluster start without data and functions."""
    if "cluster" in request.fixturenames:
        for server in request.getfixturevalue("cluster").servers:
            server.ask("FLUSHALL")
            server.ask("FUNCTION", "FLUSH")


class Move:
    """The move of the slot of `KEY` from the master that holds it to another, step by step."""

    def __init__(self, cluster: RedisCluster) -> None:
        self.slot = slot_of(KEY)
        self._cluster = cluster
        ids = {server.ask("CLUSTER", "MYID").decode(): server for server in cluster.servers}
        ranges = cluster.servers[0].ask("CLUSTER", "SLOTS")
        [self._from_id] = {each[2][2].decode() for each in ranges if each[0] <= self.slot <= each[1]}
        self._to_id = next(id for id in ids if id != self._from_id)
        self.source, self.target = ids[self._from_id], ids[self._to_id]

    def begin(self) -> None:
        """Mark the slot as migrating on both servers."""
        self.target.ask("CLUSTER", "SETSLOT", self.slot, "IMPORTING", self._from_id)
        self.source.ask("CLUSTER", "SETSLOT", self.slot, "MIGRATING", self._to_id)

    def keys(self) -> list[bytes]:
        """What is still at the source."""
        found: list[bytes] = self.source.ask("CLUSTER", "GETKEYSINSLOT", self.slot, 100)
        return found

    def carry(self, keys: list[bytes]) -> None:
        """Move keys."""
        for key in keys:
            self.source.ask("MIGRATE", "127.0.0.1", self.target.port, key, 0, 5_000)

    def end(self) -> None:
        """Announce the new owner of the slot to all members."""
        for server in (self.target, self.source, *self._cluster.servers):
            server.ask("CLUSTER", "SETSLOT", self.slot, "NODE", self._to_id)


@pytest.mark.parametrize(
    ("key", "slot"),
    [("foo", 12_182), ("{foo}bar", 12_182), ("a{foo}b{c}", 12_182), ("{}foo", 9_500), ("123456789", 12_739)],
)
def test_the_slot_of_a_key_is_that_of_the_part_in_braces(cluster: RedisCluster, key: str, slot: int) -> None:
    assert slot_of(key) == slot == cluster.servers[0].ask("CLUSTER", "KEYSLOT", key)


async def test_calls_find_the_master_of_their_key_and_answers_keep_their_order(cluster: RedisCluster) -> None:
    async with open_client(cluster.url) as client:
        answers = await client.call_each([ServerCall("echo", [key], [key], reads=True) for key in KEYS])
        await client.call_each([ServerCall("count", [key], []) for key in KEYS])
        masters = await client.topology.masters()

    assert answers == [[key.encode()] for key in KEYS]
    assert len(masters) == 3
    assert all(server.ask("DBSIZE") > 0 for server in cluster.servers)


async def test_the_library_is_loaded_on_every_master_and_healed_where_it_is_missing(cluster: RedisCluster) -> None:
    async with open_client(cluster.url) as client:
        loaded = [len(server.ask("FUNCTION", "LIST")) for server in cluster.servers]
        cluster.servers[1].ask("FUNCTION", "FLUSH")
        answers = await client.call_each([ServerCall("count", [key], []) for key in KEYS])

    assert loaded == [1, 1, 1]
    assert answers == [1] * len(KEYS)
    assert len(cluster.servers[1].ask("FUNCTION", "LIST")) == 1


async def test_a_slot_that_has_moved_is_found_again(cluster: RedisCluster) -> None:
    async with open_client(cluster.url) as client:
        first = await client.call(COUNT)
        move = Move(cluster)
        move.begin()
        move.carry(move.keys())
        move.end()
        after = await client.call_each([COUNT, *[ServerCall("echo", [key], [key], reads=True) for key in KEYS]])

    assert (first, after[0]) == (1, 2)
    assert after[1:] == [[key.encode()] for key in KEYS]


async def test_a_shard_whose_keys_are_on_two_servers_is_not_touched(cluster: RedisCluster) -> None:
    async with open_client(cluster.url) as client:
        await client.call(COUNT)
        move = Move(cluster)
        move.begin()
        [first, second] = move.keys()

        for carried in ([], [first], [second]):
            move.carry(carried)
            with pytest.raises(StoreUnavailable) as refused:
                await client.call(COUNT)
            assert "nothing was changed" in str(refused.value)

        move.end()
        assert await client.call(COUNT) == 2


async def test_callers_live_through_the_move_of_a_slot(cluster: RedisCluster) -> None:
    calls = [COUNT, COUNT, COUNT, *[ServerCall("count", [key], []) for key in KEYS[1:4]]]
    async with open_client(cluster.url) as client, Callers(client, 6, lambda number: calls[number]) as callers:
        for _ in range(3):
            before = callers.answered
            await callers.until(lambda tally: tally.answered > before + 100)  # noqa: B023 - awaited at once
            move = Move(cluster)
            move.begin()
            while keys := move.keys():
                move.carry(keys[:1])
                await asyncio.sleep(0)
            move.end()
        counted_before = callers.answered
        await callers.until(lambda tally: tally.answered > counted_before + 100)

    async with open_client(cluster.url) as client:
        counted = await client.call_each(calls[2:])
    assert callers.unknown == 0
    assert sum(counted) == callers.answered + len(counted)


async def test_a_url_of_the_wrong_kind_says_what_to_write(cluster: RedisCluster) -> None:
    for url, hint in (
        (cluster.servers[0].url, "redis+cluster://"),
        (redis_server().url.replace("redis://", "redis+cluster://"), "redis://"),
    ):
        with pytest.raises(BadConfig) as refused:
            async with open_client(url):
                pytest.fail("it was taken")
        assert hint in str(refused.value)


async def test_a_master_that_is_away_is_unavailable_for_its_slots_only() -> None:
    with RedisCluster(arguments=["--cluster-require-full-coverage", "no"], aof="always") as cluster:
        cluster.launch()
        async with open_client(cluster.url) as client:
            cluster.servers[2].kill()
            answers = await client.call_each([ServerCall("count", [key], []) for key in KEYS])
            cluster.servers[2].start()
            cluster.wait_ready()
            again = await client.call_each([ServerCall("count", [key], []) for key in KEYS])

    kinds = [type(answer) for answer in answers]
    assert set(kinds) == {int, StoreUnavailable}
    assert again == [2 if kind is int else 1 for kind in kinds]


async def test_callers_live_through_the_death_of_a_member_that_has_a_replica() -> None:
    with RedisCluster(node_timeout_ms=1_000) as cluster:
        cluster.launch()
        arguments = ["--cluster-enabled", "yes", "--cluster-port", str(free_port()), "--cluster-node-timeout", "1000"]
        with RedisServer(arguments=arguments) as replica:
            replica.launch()
            move = Move(cluster)
            replicate(move.source, replica)
            async with open_client(cluster.url) as client, Callers(client, 3) as callers:
                await callers.until(lambda tally: tally.answered > 50)
                move.source.kill()
                before = callers.answered
                await callers.until(lambda tally: tally.answered > before + 50)
                server = await client.topology.server_of(KEY)

    assert server.address.port == replica.port


def replicate(master: RedisServer, replica: RedisServer) -> None:
    """Make a server the replica of a member of a cluster."""
    bus = master.arguments[master.arguments.index("--cluster-port") + 1]
    replica.ask("CLUSTER", "MEET", "127.0.0.1", master.port, bus)
    id = master.ask("CLUSTER", "MYID").decode()
    wait_until(lambda: id.encode() in replica.ask("CLUSTER", "NODES"), "the introduction of a replica")
    wait_until(lambda: int(replica.ask("CLUSTER", "INFO").split(b"cluster_size:")[1].split()[0]) == 3, "a full view")
    replica.ask("CLUSTER", "REPLICATE", id)
    wait_until(lambda: replica.ask("INFO", "replication").get("master_link_status") == "up", "the first copy")
    wait_until(lambda: len(master.ask("CLUSTER", "REPLICAS", id)) == 1, "the master's view")


# Sentinel.


async def test_callers_live_through_the_death_of_a_master() -> None:
    with RedisSentinel() as servers:
        servers.launch()
        async with open_client(servers.url) as client, Callers(client, 5) as callers:
            await callers.until(lambda tally: tally.answered > 50)
            old = servers.master_port()
            servers.master.kill()
            await asyncio.get_running_loop().run_in_executor(None, servers.wait_failover, old)
            before = callers.answered
            await callers.until(lambda tally: tally.answered > before + 50)
            [now] = await client.topology.masters()

    assert now.address.port == servers.replicas[0].port != old


async def test_callers_leave_an_old_master_before_it_knows_that_it_is_one() -> None:
    with RedisSentinel() as servers:
        servers.launch()
        async with open_client(servers.url) as client, Callers(client, 5) as callers:
            await callers.until(lambda tally: tally.answered > 50)
            servers.sentinels[0].ask("SENTINEL", "FAILOVER", servers.name)
            while (port := (await client.topology.masters())[0].address.port) == servers.master.port:
                before = callers.answered
                await callers.until(lambda tally: tally.answered > before + 10)  # noqa: B023 - awaited at once
            [role, *_] = servers.master.ask("ROLE")
            before = callers.answered
            await callers.until(lambda tally: tally.answered > before + 50)

    assert role == b"master", "it would have taken writes and lost them"
    assert port == servers.replicas[0].port


async def test_an_unknown_service_and_silent_sentinels_have_different_errors() -> None:
    with RedisSentinel(replicas=0, sentinels=1) as servers:
        servers.launch()
        with pytest.raises(BadConfig, match="knows no service 'other'"):
            async with open_client(servers.url.replace(servers.name, "other")):
                pytest.fail("it was found")
        servers.sentinels[0].kill()
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            async with open_client(servers.url):
                pytest.fail("it was found")


# Replicas.


async def test_a_change_that_too_few_replicas_have_acknowledged_is_an_unknown_outcome() -> None:
    with RedisServer(aof="always", arguments=["--min-replicas-to-write", "1"]) as master:
        master.launch()
        with RedisServer(replica_of=master) as replica:
            replica.launch()
            wait_until(
                lambda: master.ask("INFO", "replication")["min_slaves_good_slaves"] == 1, "a replica that counts"
            )
            async with open_client(f"{master.url}?profile=replicated&wait_ms=100") as client:
                first = await asyncio.gather(*[client.call(COUNT) for _ in range(20)])
                replica.pause()
                with pytest.raises(OutcomeUnknown, match="acknowledge"):
                    await client.call(COUNT)
                read = await client.call(echo("a"))
                replica.resume()
                after = await client.call(COUNT)

    assert sorted(first) == list(range(1, 21))
    assert (read, after) == ([b"a"], 22)
