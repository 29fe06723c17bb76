"""Which server to ask: the only one, the one that Sentinel names, or the one that holds the slot."""

from typing import Protocol

from headrace.stores.redis.options import Options
from headrace.stores.redis.server import Server


class Topology(Protocol):
    """Knows the masters."""

    clustered: bool
    sole: Server | None
    """The server that holds all keys, where it is the same one for ever."""

    async def server_of(self, key: str) -> Server:
        """The master that holds a key."""

    async def masters(self) -> list[Server]:
        """All masters."""

    async def look_again(self, server: Server, reply: Exception) -> bool:
        """Find out anew after a server could not be reached or was the wrong one; whether it is worth another try."""

    async def close(self) -> None:
        """Let go of all connections."""


class Single:
    """One server under a fixed address."""

    clustered = False

    def __init__(self, options: Options) -> None:
        self._server = Server(options.addresses[0], options)
        self.sole: Server | None = self._server

    async def server_of(self, key: str) -> Server:  # noqa: ARG002 - the only one holds all
        return self._server

    async def masters(self) -> list[Server]:
        return [self._server]

    async def look_again(self, server: Server, reply: Exception) -> bool:  # noqa: ARG002 - there is no other
        return False

    async def close(self) -> None:
        await self._server.close()
