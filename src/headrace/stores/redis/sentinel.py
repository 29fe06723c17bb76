"""The master that Sentinel names, found again whenever it changes."""

import asyncio
from typing import Any

from msgspec.structs import replace

from headrace.model.errors import BadConfig, HeadraceError, StoreUnavailable
from headrace.stores.redis.options import Address, Options
from headrace.stores.redis.server import Server
from headrace.stores.redis.wire import Wire

SWITCHES = ("+failover-state-reconf-slaves", "+switch-master")
"""The channels on which a sentinel says that another server has become master: the one that leads the failover a little
earlier on the first, all of them on the second."""


class Sentinel:
    """Asks the sentinels in turn, and listens to one of them: an old master goes on taking writes for seconds after
    another was named, and they would be lost. Only a server that calls itself a master is used."""

    clustered = False
    sole: Server | None = None

    def __init__(self, options: Options) -> None:
        self._options = options
        plain = replace(options, db=0, profile=None)
        self._sentinels = [Server(each, plain, credentials=options.sentinel_credentials) for each in options.addresses]
        self._master: Server | None = None
        self._is_doubtful = True
        self._looking = asyncio.Lock()
        self._ear: Wire | None = None

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

    def _deaf(self, _: Wire) -> None:
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
