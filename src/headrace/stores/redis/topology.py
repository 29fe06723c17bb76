"""Which server to ask: the only one, the one that Sentinel names, or the one that holds the slot."""

import asyncio
from binascii import crc_hqx
from typing import Any, Protocol

from msgspec.structs import replace

from headrace.model.errors import BadConfig, HeadraceError, StoreUnavailable
from headrace.stores.redis.connection import RedisConnection
from headrace.stores.redis.errors import code_of
from headrace.stores.redis.server import Server
from headrace.stores.redis.url import Address, RedisOptions


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

    def __init__(self, options: RedisOptions) -> None:
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


SWITCHES = ("+failover-state-reconf-slaves", "+switch-master")
"""The channels on which a sentinel says that another server has become master: the one that leads the failover a little
earlier on the first, all of them on the second."""


class Sentinel:
    """Asks the sentinels in turn, and listens to one of them: an old master goes on taking writes for seconds after
    another was named, and they would be lost. Only a server that calls itself a master is used."""

    clustered = False
    sole: Server | None = None

    def __init__(self, options: RedisOptions) -> None:
        self._options = options
        plain = replace(options, db=0, profile=None)
        self._sentinels = [Server(each, plain, credentials=options.sentinel_credentials) for each in options.addresses]
        self._master: Server | None = None
        self._is_doubtful = True
        self._looking = asyncio.Lock()
        self._ear: RedisConnection | None = None

    async def server_of(self, key: str) -> Server:  # noqa: ARG002 - the master holds all
        if self._master is None or self._is_doubtful:
            async with self._looking:
                if self._master is None or self._is_doubtful:
                    await self._look()
        assert self._master is not None  # a look finds it or raises
        return self._master

    async def _look(self) -> None:
        self._is_doubtful = False  # what is heard from now on counts
        try:
            address = await self._ask_sentinels()
        except BaseException:
            self._is_doubtful = True
            raise
        old = self._master
        if old is None or old.address != address:
            self._master = Server(address, self._options, must_be_master=True)
            if old is not None:
                await old.close("Sentinel named another master")

    async def _listen(self, sentinel: Server) -> None:
        if self._ear is None:
            try:
                self._ear = await sentinel.listening(self._heard, self._deaf)
            except HeadraceError:
                return  # the next look tries again
            self._ear.tell([["SUBSCRIBE", *SWITCHES]])

    def _heard(self, message: Any) -> None:
        match message:
            case [b"message", _, bytes() as text] if self._options.service in text.decode().split(" ")[:2]:
                self._is_doubtful = True

    def _deaf(self, _: RedisConnection) -> None:
        self._ear, self._is_doubtful = None, True

    async def _ask_sentinels(self) -> Address:
        service = self._options.service
        failures: list[Exception] = []
        for sentinel in list(self._sentinels):
            await self._listen(sentinel)
            [reply] = await sentinel.ask([["SENTINEL", "GET-MASTER-ADDR-BY-NAME", service]])
            if isinstance(reply, list):
                # The one that answered is asked first the next time.
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

    async def look_again(self, server: Server, reply: Exception) -> bool:  # noqa: ARG002 - whatever it was, ask again
        if server is self._master:
            self._is_doubtful = True
        return True

    async def close(self) -> None:
        if self._ear is not None:
            self._ear.close()
        for server in (*self._sentinels, self._master):
            if server is not None:
                await server.close()


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

    def __init__(self, options: RedisOptions) -> None:
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


def topology_of(options: RedisOptions) -> Topology:
    """The servers of a URL; nothing is asked yet."""
    match options.kind:
        case "single":
            return Single(options)
        case "sentinel":
            return Sentinel(options)
        case "cluster":
            return Cluster(options)
