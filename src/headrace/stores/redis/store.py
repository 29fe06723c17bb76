"""Puts the protocols of the store on Redis together."""

from collections.abc import Callable

from headrace.model.results import Health
from headrace.stores.redis.client import RedisClient
from headrace.stores.redis.connections.topology import topology_of
from headrace.stores.redis.dead_letters import RedisDeadLetters
from headrace.stores.redis.durability import Profile, check_servers
from headrace.stores.redis.feeds import RedisFeeds, RedisItems
from headrace.stores.redis.health import earliest_clock_ms, highest_epoch, library_schema, read_masters_health
from headrace.stores.redis.integrity import RedisIntegrity
from headrace.stores.redis.jobs import RedisJobs
from headrace.stores.redis.journal import RedisJournal
from headrace.stores.redis.library import LAYOUT, read_library
from headrace.stores.redis.queues import QueueRegistry, RedisQueues
from headrace.stores.redis.reads import RedisReads
from headrace.stores.redis.signals import RedisSignals
from headrace.stores.redis.url import RedisOptions


class RedisStore:
    """A store on one server, on the master that Sentinel names, or on the masters of a cluster."""

    is_remote = True

    def __init__(self, client: RedisClient, profile: Profile) -> None:
        registry = QueueRegistry(client)
        self._client = client
        self._profile = profile
        self.jobs = RedisJobs(client, registry)
        self.dead = RedisDeadLetters(client, registry)
        self.queues = RedisQueues(client, registry)
        self.reads = RedisReads(client)
        self.journal = RedisJournal(client)
        self.feeds = RedisFeeds(client)
        self.items = RedisItems(client)
        self.signals = RedisSignals(client)
        self.integrity = RedisIntegrity(client, self.journal)

    @staticmethod
    async def open(options: RedisOptions, *, edit: Callable[[str], str] | None = None) -> "RedisStore":
        """Connect to the servers, check their durability, and load the functions on every master.

        `edit` changes the source of the functions first, for tests that plant a fault.
        """
        topology = topology_of(options)
        try:
            profile = await check_servers(await topology.masters(), options)
            library = read_library(clustered=topology.clustered, edit=edit)
            client = RedisClient(topology, library, replicas=profile.replicas, wait_ms=options.wait_ms)
            await client.load_everywhere()
        except BaseException:
            await topology.close()
            raise
        return RedisStore(client, profile)

    async def now_ms(self) -> int:
        return await earliest_clock_ms(self._client)

    async def health(self) -> Health:
        profile = self._profile
        servers = await read_masters_health(self._client, profile.replicas)
        epoch = await highest_epoch(self._client, self.queues)
        schema = library_schema(self._client.library, LAYOUT, is_loaded=True)  # a call loads it where it is missing
        durability = (profile.name, profile.promise, profile.version)
        return Health("redis", *durability, servers.skew_ms, epoch, servers.name, schema, servers.notes)

    async def close(self) -> None:
        self.signals.close()
        await self._client.close()
