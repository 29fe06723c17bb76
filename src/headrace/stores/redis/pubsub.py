"""The connection on which a server's wake-ups arrive."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hiredis import ReplyError

from headrace.model.errors import HeadraceError, StoreUnavailable
from headrace.stores.redis.connection import RedisConnection
from headrace.stores.redis.server import Server, shared
from headrace.stores.redis.topology import Topology

PING_SECONDS = 5.0
"""How long a dead connection may look alive; waiters also look by themselves."""


class PubSubConnection:
    """Listens to channels of one server until the connection is lost; a new connection is made then."""

    def __init__(self, server: Server, on_message: Callable[[str, bytes], None]) -> None:
        self.server = server
        self._on_message = on_message
        self._connection: RedisConnection | None = None
        self._asked: deque[tuple[str, asyncio.Future[None]]] = deque()
        self._heard: dict[str, asyncio.Future[None]] = {}
        self._pinged_at = 0.0
        self._is_answered = True
        self.is_lost = False

    async def open(self) -> None:
        """Connect."""
        self._connection = await self.server.listening(self._take, self._lost)

    def hears(self, channels: Sequence[str]) -> bool:
        """Whether every wake-up on these channels arrives already."""
        heard = self._heard
        return not self.is_lost and all(channel in heard and heard[channel].done() for channel in channels)

    async def subscribe(self, channels: Sequence[str]) -> None:
        """Returns when every wake-up from now on will arrive; raises what the server said otherwise."""
        new = [channel for channel in channels if channel not in self._heard]
        if self._connection is None or self.is_lost:
            raise StoreUnavailable(f"redis at {self.server.address} dropped the connection; is it running?")
        loop = asyncio.get_running_loop()
        for channel in new:
            self._heard[channel] = loop.create_future()
            self._asked.append((channel, self._heard[channel]))
        # One command each: on a cluster the channels of one command must share a slot.
        self._connection.tell([["SSUBSCRIBE", channel] for channel in new])
        for channel in channels:
            told = self._heard.get(channel)
            if told is not None:
                await asyncio.shield(told)  # others may wait for the same one

    def unsubscribe(self, channels: Sequence[str]) -> None:
        """Listen no longer."""
        known = [channel for channel in channels if self._heard.pop(channel, None) is not None]
        if self._connection is not None:
            self._connection.tell([["SUNSUBSCRIBE", channel] for channel in known])

    def check(self, now: float) -> None:
        """Ask for a sign of life; a connection that gave none since the last time is dead and does not know it."""
        if self._connection is None or now < self._pinged_at + PING_SECONDS:
            return
        if not self._is_answered:
            self._connection.close("no answer to PING")
            return
        self._pinged_at, self._is_answered = now, False
        self._connection.tell([["PING"]])

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close("the store was closed")

    def _take(self, reply: Any) -> None:
        if isinstance(reply, Exception):
            self._answer(reply)
            return
        match reply:
            case [b"smessage", channel, said]:
                self._on_message(channel.decode(), said)
            case [b"ssubscribe", *_]:
                self._answer(None)
            case [b"sunsubscribe", bytes() as channel, _]:
                # Unasked for when the slot has moved to another server.
                told = self._heard.get(channel.decode())
                if told is not None and told.done():
                    del self._heard[channel.decode()]
            case _:
                self._is_answered = True

    def _answer(self, error: Exception | None) -> None:
        if not self._asked:
            return
        channel, told = self._asked.popleft()
        if error is not None and self._heard.get(channel) is told:
            del self._heard[channel]
        _settle(told, error)

    def _lost(self, _: RedisConnection) -> None:
        self.is_lost = True
        for _channel, told in self._asked:
            _settle(told, StoreUnavailable(f"redis at {self.server.address} dropped the connection; is it running?"))
        self._asked.clear()
        self._heard.clear()


def _settle(told: asyncio.Future[None], error: Exception | None) -> None:
    if told.done():
        return
    if error is None:
        told.set_result(None)
    else:
        told.set_exception(error)
        told.exception()  # nobody may be waiting any more


LINGER_SECONDS = 30.0
"""How long a channel is listened to after the last waiter: an idle worker waits again and again."""
LINGERING_MAX = 1_000
"""Channels that are listened to although nobody waits; beyond, those that were left first go."""


class PubSub:
    """One listening connection for each master, opened when somebody waits and shared by all."""

    def __init__(
        self, topology: Topology, on_message: Callable[[str, bytes], None], linger_seconds: float = LINGER_SECONDS
    ) -> None:
        self._topology = topology
        self._on_message = on_message
        self._linger_seconds = linger_seconds
        self._connections: dict[Server, asyncio.Task[PubSubConnection]] = {}
        self._users: Counter[str] = Counter()
        self._left: dict[str, float] = {}
        self._leaving: asyncio.TimerHandle | None = None

    @contextmanager
    def using(self, channels: Sequence[str]) -> Iterator[None]:
        """Channels are listened to as long as somebody uses them, and for a while afterwards."""
        self._users.update(channels)
        for channel in channels:
            self._left.pop(channel, None)
        try:
            yield
        finally:
            self._users.subtract(channels)
            unused = [channel for channel in channels if not self._users[channel]]
            now = asyncio.get_running_loop().time()
            for channel in unused:
                del self._users[channel]
                self._left[channel] = now
            if len(self._left) > LINGERING_MAX or self._leaving is None:
                self._leave()

    def _leave(self) -> None:
        """Listen no longer to what nobody has used for long enough; comes again for the rest."""
        loop = asyncio.get_running_loop()
        before, beyond = loop.time() - self._linger_seconds, len(self._left) - LINGERING_MAX
        over = [channel for at, (channel, left) in enumerate(self._left.items()) if left <= before or at < beyond]
        for channel in over:
            del self._left[channel]
        for connection in self._open_connections():
            connection.unsubscribe(over)
        if self._leaving is not None:
            self._leaving.cancel()
        first = next(iter(self._left.values()), None)
        # A little later than needed, so that the clock has surely passed it.
        self._leaving = None if first is None else loop.call_at(first + self._linger_seconds + 0.001, self._leave)

    async def listen(self, channels: Sequence[str]) -> None:
        """Returns when wake-ups on the channels arrive from now on, or cannot be had for the moment."""
        now = asyncio.get_running_loop().time()
        try:
            groups: dict[Server, list[str]] = {}
            for channel in channels:
                groups.setdefault(await self._topology.server_of(channel), []).append(channel)
            for server, its in groups.items():
                await self._listen_to(server, its, now)
        except HeadraceError:
            return  # who cannot hear has to look, and a look tells what is wrong

    async def _listen_to(self, server: Server, channels: Sequence[str], now: float) -> None:
        task = self._connections.get(server)
        connection = _opened(task)
        if connection is not None and connection.hears(channels):
            connection.check(now)
            return
        if task is None:
            self._drop_lost()
            task = self._connections[server] = asyncio.create_task(self._open(server))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            connection = await shared(task)
            if connection is not None:
                connection.check(now)
                await connection.subscribe(channels)
        except ReplyError as refused:
            await self._topology.look_again(server, refused)
        finally:
            self._drop_lost()

    async def _open(self, server: Server) -> PubSubConnection:
        connection = PubSubConnection(server, self._on_message)
        await connection.open()
        return connection

    def _open_connections(self) -> list[PubSubConnection]:
        return [connection for task in self._connections.values() if (connection := _opened(task)) is not None]

    def _drop_lost(self) -> None:
        open_servers = {connection.server for connection in self._open_connections()}
        self._connections = {
            server: task for server, task in self._connections.items() if not task.done() or server in open_servers
        }

    def close(self) -> None:
        """Let go of all connections."""
        if self._leaving is not None:
            self._leaving.cancel()
        for connection in self._open_connections():
            connection.close()
        for task in self._connections.values():
            task.cancel()
        self._connections.clear()


def _opened(task: asyncio.Task[PubSubConnection] | None) -> PubSubConnection | None:
    if task is None or not task.done() or task.cancelled() or task.exception() is not None:
        return None
    connection = task.result()
    return None if connection.is_lost else connection
