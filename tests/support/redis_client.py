"""A Redis client with a few functions of the tests' own, for tests of calls."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.stores.redis.client import RedisClient, ServerCall
from headrace.stores.redis.connections.topology import topology_of
from headrace.stores.redis.durability import check_servers
from headrace.stores.redis.library import Library
from headrace.stores.redis.url import RedisOptions, options_of

KEY = "hr:{acme/mail/0}:m"

SOURCE = """
local function register(name, flags, run)
  redis.register_function{function_name = LIBRARY .. '_' .. name, callback = guarded(run), flags = flags}
end
register('echo', {'no-writes'}, function(keys, args) return args end)
register('count', {}, function(keys, args)
  redis.call('HSET', keys[1], 'met', 1)
  return redis.call('HINCRBY', keys[1] .. 'c', 'n', 1)
end)
register('refuse', {}, function(keys, args) return redis.error_reply('HEADRACE wrong_shards 3') end)
register('stumble', {}, function(keys, args)
  redis.call('HINCRBY', keys[1] .. 'c', 'n', 1)
  return redis.call('GET', keys[1] .. 'c')
end)
"""
"""`echo` gives its arguments back, `count` counts its calls, `refuse` refuses, `stumble` fails half-way."""

COUNT = ServerCall("count", [KEY], [])


def echo(*args: str | int) -> ServerCall:
    """A call that reads."""
    return ServerCall("echo", [KEY], list(args), reads=True)


def options_from(url: str) -> RedisOptions:
    """The settings of a URL."""
    parts = urlsplit(url)
    return options_of(parts, dict(parse_qsl(parts.query, keep_blank_values=True)))


@asynccontextmanager
async def open_client(url: str, source: str = SOURCE) -> AsyncIterator[RedisClient]:
    """A client of the servers of a URL, with the tests' own functions on them."""
    options = options_from(url)
    topology = topology_of(options)
    try:
        profile = await check_servers(await topology.masters(), options)
        library = Library(source, clustered=topology.clustered)
        client = RedisClient(topology, library, replicas=profile.replicas, wait_ms=options.wait_ms)
        await client.load_everywhere()
        yield client
    finally:
        await topology.close()


class Callers:
    """Tasks that call `count` over and over in spite of errors, and the outcomes of their calls."""

    def __init__(self, client: RedisClient, number: int, calls: Callable[[int], ServerCall] = lambda _: COUNT) -> None:
        self.answered = self.unknown = self.unavailable = 0
        self._client = client
        self._calls = calls
        self._number = number
        self._moved = asyncio.Event()
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._call(each)) for each in range(self._number)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        await asyncio.gather(*self._tasks)

    async def _call(self, number: int) -> None:
        while not self._is_over:
            try:
                await self._client.call(self._calls(number))
                self.answered += 1
            except OutcomeUnknown:
                self.unknown += 1
            except StoreUnavailable:
                self.unavailable += 1
                await asyncio.sleep(0.005)  # as a worker would: a server that is away needs the machine to come back
            self._moved.set()

    async def until(self, enough: Callable[[Self], bool]) -> None:
        """Wait until the outcomes are enough; fails when none comes for long."""
        while not enough(self):
            self._moved.clear()
            await asyncio.wait_for(self._moved.wait(), 30)
