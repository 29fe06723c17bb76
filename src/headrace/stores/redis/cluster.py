"""The masters of a cluster and the slots that they hold."""

import asyncio
from binascii import crc_hqx
from typing import Any

from headrace.model.errors import BadConfig, HeadraceError, StoreUnavailable
from headrace.stores.redis.errors import code_of
from headrace.stores.redis.options import Address, Options
from headrace.stores.redis.server import Server

SLOTS = 16_384


def slot_of(key: str) -> int:
    """The slot of a key: of the part in braces, where there is one."""
    start = key.find("{")
    if start >= 0:
        end = key.find("}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key.encode(), 0) % SLOTS


class Cluster:
    """Keeps a map of the slots, corrected whenever a server says that it is wrong or cannot be reached."""

    clustered = True
    sole: Server | None = None

    def __init__(self, options: Options) -> None:
        self._options = options
        self._servers: dict[Address, Server] = {}
        self._slots: list[Server | None] = []
        self._learning = asyncio.Lock()
        self._lessons = 0

    async def server_of(self, key: str) -> Server:
        if not self._slots:
            await self._learn(self._lessons)
        slot = slot_of(key)
        server = self._slots[slot]
        if server is None:
            await self._learn(self._lessons)
            server = self._slots[slot]
        if server is None:
            raise StoreUnavailable(f"no server of the cluster holds slot {slot}; is it complete?")
        return server

    async def masters(self) -> list[Server]:
        if not self._slots:
            await self._learn(self._lessons)
        return list({id(server): server for server in self._slots if server is not None}.values())

    async def look_again(self, server: Server, reply: Exception) -> bool:
        code = code_of(reply)
        if code in {"ASK", "TRYAGAIN"}:
            # The slot is on its way, and the keys of one shard may be on both servers: it has to arrive first.
            return True
        if code != "MOVED":
            await self._learn(self._lessons, avoid=server)
            return True
        slot, where = str(reply).split(" ")[1:3]
        host, _, port = where.rpartition(":")
        target = self._server_at(Address(host or server.address.host, int(port)))
        if self._slots and self._slots[int(slot)] is target:
            return True  # learnt meanwhile
        await self._learn(self._lessons, first=target)
        # The servers may not have told each other yet; the one that held the slot knows best.
        self._slots[int(slot)] = target
        return True

    async def _learn(self, lessons: int, *, first: Server | None = None, avoid: Server | None = None) -> None:
        """Ask one server after the other for the map; callers who come while it is being asked for share the answer."""
        async with self._learning:
            if lessons != self._lessons:
                return
            seeds = [self._server_at(address) for address in self._options.addresses]
            known = dict.fromkeys([*([first] if first else []), *self._servers.values(), *seeds])
            last: Exception | None = None
            for server in sorted(known, key=lambda each: (each is avoid, each is not first)):
                [reply] = await server.ask([["CLUSTER", "SLOTS"]])
                if isinstance(reply, list) and reply:
                    self._lessons += 1
                    await self._take(server, reply)
                    return
                last = reply if isinstance(reply, Exception) else last
            raise self._unknown(last)

    def _unknown(self, last: Exception | None) -> HeadraceError:
        where = ", ".join(map(str, self._options.addresses))
        if last is not None and "cluster support disabled" in str(last):
            return BadConfig(f"redis at {where} is not a cluster; write redis:// or redis+sentinel://")
        if isinstance(last, HeadraceError):
            return last
        return StoreUnavailable(
            f"no server of the cluster at {where} tells who holds the slots ({last}); is it running?"
        )

    async def _take(self, told_by: Server, ranges: list[Any]) -> None:
        slots: list[Server | None] = [None] * SLOTS
        for start, end, master, *_ in ranges:
            host = (master[0] or b"").decode()
            # A server that does not know its own name means the one under which it was asked.
            address = Address(host if host not in {"", "?"} else told_by.address.host, int(master[1]))
            slots[start : end + 1] = [self._server_at(address)] * (end + 1 - start)
        self._slots = slots
        masters = {id(server) for server in slots}
        for address, server in list(self._servers.items()):
            if id(server) not in masters and server.load == 0:
                del self._servers[address]
                await server.close()

    def _server_at(self, address: Address) -> Server:
        if address not in self._servers:
            self._servers[address] = Server(address, self._options)
        return self._servers[address]

    async def close(self) -> None:
        for address in self._options.addresses:
            self._server_at(address)
        for server in self._servers.values():
            await server.close()
