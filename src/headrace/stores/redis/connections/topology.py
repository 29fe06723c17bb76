"""Finds the server of a key: the only one, the master that Sentinel names, or the master of the slot."""

import asyncio
from binascii import crc_hqx
from typing import Any, Protocol

from msgspec.structs import replace

from headrace.model.errors import BadConfig, HeadraceError, StoreUnavailable
from headrace.stores.redis.connections.connection import RedisConnection
from headrace.stores.redis.connections.server import Server
from headrace.stores.redis.errors import code_of
from headrace.stores.redis.url import Address, RedisOptions


class Topology(Protocol):
    """Knows the masters."""

    clustered: bool
    sole: Server | None
    """The server that holds all keys and never changes; None otherwise."""

    async def server_of(self, key: str) -> Server:
        """The master that holds a key."""

    async def masters(self) -> list[Server]:
        """All masters."""

    async def refresh(self, server: Server, reply: Exception) -> bool:
        """Look up the servers again after a failed or redirected call; returns whether to repeat the call."""

    async def close(self) -> None:
        """Close all connections."""


class Single:
    """One server under a fixed address."""

    clustered = False

    def __init__(self, options: RedisOptions) -> None:
        self._server = Server(options.addresses[0], options)
        self.sole: Server | None = self._server

    async def server_of(self, key: str) -> Server:  # noqa: ARG002 - the only server holds all keys
        return self._server

    async def masters(self) -> list[Server]:
        return [self._server]

    async def refresh(self, server: Server, reply: Exception) -> bool:  # noqa: ARG002 - there is no other
        return False

    async def close(self) -> None:
        await self._server.close()


SWITCHES = ("+failover-state-reconf-slaves", "+switch-master")
"""The channels on which sentinels announce another master: the leader of a failover first on the first one, then all of
them on the second."""


class Sentinel:
    """Asks the sentinels in turn, and listens to one of them: an old master accepts writes for seconds after a
    failover, which would be lost. Only a server whose role is master is used."""

    clustered = False
    sole: Server | None = None

    def __init__(self, options: RedisOptions) -> None:
        self._options = options
        plain = replace(options, db=0, profile=None)
        self._sentinels = [Server(each, plain, credentials=options.sentinel_credentials) for each in options.addresses]
        self._master: Server | None = None
        self._is_stale = True
        self._lookup_lock = asyncio.Lock()
        self._listener: RedisConnection | None = None

    async def server_of(self, key: str) -> Server:  # noqa: ARG002 - the master holds all
        if self._master is None or self._is_stale:
            async with self._lookup_lock:
                if self._master is None or self._is_stale:
                    await self._find_master()
        assert self._master is not None  # `_find_master` sets it or raises
        return self._master

    async def _find_master(self) -> None:
        self._is_stale = False  # before the lookup: a message from now on makes it stale again
        try:
            address = await self._ask_sentinels()
        except BaseException:
            self._is_stale = True
            raise
        old = self._master
        if old is None or old.address != address:
            self._master = Server(address, self._options, must_be_master=True)
            if old is not None:
                await old.close("Sentinel named another master")

    async def _listen(self, sentinel: Server) -> None:
        if self._listener is None:
            try:
                self._listener = await sentinel.open_listener(self._on_message, self._on_listener_lost)
            except HeadraceError:
                return  # the next lookup tries again
            self._listener.write([["SUBSCRIBE", *SWITCHES]])

    def _on_message(self, message: Any) -> None:
        match message:
            case [b"message", _, bytes() as text] if self._options.service in text.decode().split(" ")[:2]:
                self._is_stale = True

    def _on_listener_lost(self, _: RedisConnection) -> None:
        self._listener, self._is_stale = None, True

    async def _ask_sentinels(self) -> Address:
        service = self._options.service
        failures: list[Exception] = []
        for sentinel in list(self._sentinels):
            await self._listen(sentinel)
            [reply] = await sentinel.send([["SENTINEL", "GET-MASTER-ADDR-BY-NAME", service]])
            if isinstance(reply, list):
                # The next lookup begins with the sentinel that answered.
                self._sentinels.remove(sentinel)
                self._sentinels.insert(0, sentinel)
                return Address(reply[0].decode(), int(reply[1]))
            if reply is None:
                raise BadConfig(f"the sentinel at {sentinel.address} knows no service {service!r}; correct the URL")
            failures.append(reply)
        last = failures[-1]
        if isinstance(last, HeadraceError):
            raise last
        raise StoreUnavailable(f"no sentinel names the master of {service!r} ({last}); are they running?")

    async def masters(self) -> list[Server]:
        return [await self.server_of("")]

    async def refresh(self, server: Server, reply: Exception) -> bool:  # noqa: ARG002 - any reply is a reason to repeat
        if server is self._master:
            self._is_stale = True
        return True

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for server in (*self._sentinels, self._master):
            if server is not None:
                await server.close()


SLOTS = 16_384


def slot_of(key: str) -> int:
    """The slot of a key, or of its part in braces."""
    start = key.find("{")
    if start >= 0:
        end = key.find("}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key.encode(), 0) % SLOTS


class Cluster:
    """Keeps the map of slots, and refreshes it after a redirection or a lost server."""

    clustered = True
    sole: Server | None = None

    def __init__(self, options: RedisOptions) -> None:
        self._options = options
        self._servers: dict[Address, Server] = {}
        self._slots: list[Server | None] = []
        self._refresh_lock = asyncio.Lock()
        self._slots_version = 0

    async def server_of(self, key: str) -> Server:
        if not self._slots:
            await self._refresh_slots(self._slots_version)
        slot = slot_of(key)
        server = self._slots[slot]
        if server is None:
            await self._refresh_slots(self._slots_version)
            server = self._slots[slot]
        if server is None:
            raise StoreUnavailable(f"no server of the cluster holds slot {slot}; is it complete?")
        return server

    async def masters(self) -> list[Server]:
        if not self._slots:
            await self._refresh_slots(self._slots_version)
        return list({id(server): server for server in self._slots if server is not None}.values())

    async def refresh(self, server: Server, reply: Exception) -> bool:
        code = code_of(reply)
        if code in {"ASK", "TRYAGAIN"}:
            # The slot is moving, and the keys of one shard may be on both servers: wait for the end of the move.
            return True
        if code != "MOVED":
            await self._refresh_slots(self._slots_version, avoid=server)
            return True
        slot, where = str(reply).split(" ")[1:3]
        host, _, port = where.rpartition(":")
        target = self._server_at(Address(host or server.address.host, int(port)))
        if self._slots and self._slots[int(slot)] is target:
            return True  # refreshed meanwhile
        await self._refresh_slots(self._slots_version, first=target)
        # The servers may not agree yet; the former owner of the slot knows best.
        self._slots[int(slot)] = target
        return True

    async def _refresh_slots(self, version: int, *, first: Server | None = None, avoid: Server | None = None) -> None:
        """Ask one server after the other for the map; concurrent callers share the answer."""
        async with self._refresh_lock:
            if version != self._slots_version:
                return
            seeds = [self._server_at(address) for address in self._options.addresses]
            known = dict.fromkeys([*([first] if first else []), *self._servers.values(), *seeds])
            last: Exception | None = None
            for server in sorted(known, key=lambda each: (each is avoid, each is not first)):
                [reply] = await server.send([["CLUSTER", "SLOTS"]])
                if isinstance(reply, list) and reply:
                    self._slots_version += 1
                    await self._set_slots(server, reply)
                    return
                last = reply if isinstance(reply, Exception) else last
            raise self._no_slots_error(last)

    def _no_slots_error(self, last: Exception | None) -> HeadraceError:
        where = ", ".join(map(str, self._options.addresses))
        if last is not None and "cluster support disabled" in str(last):
            return BadConfig(f"redis at {where} is not a cluster; write redis:// or redis+sentinel://")
        if isinstance(last, HeadraceError):
            return last
        return StoreUnavailable(
            f"no server of the cluster at {where} tells who holds the slots ({last}); is it running?"
        )

    async def _set_slots(self, source: Server, ranges: list[Any]) -> None:
        slots: list[Server | None] = [None] * SLOTS
        for start, end, master, *_ in ranges:
            host = (master[0] or b"").decode()
            # A server that does not know its own name is reached under the address it was asked at.
            address = Address(host if host not in {"", "?"} else source.address.host, int(master[1]))
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


def topology_of(options: RedisOptions) -> Topology:
    """The servers of a URL, without a connection yet."""
    match options.kind:
        case "single":
            return Single(options)
        case "sentinel":
            return Sentinel(options)
        case "cluster":
            return Cluster(options)
