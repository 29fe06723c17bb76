"""Subscribes to channels: one listening connection for each master, shared by all waiters."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hiredis import ReplyError

from headrace.model.errors import HeadraceError, StoreUnavailable
from headrace.stores.redis.connections.connection import RedisConnection
from headrace.stores.redis.connections.server import Server, shared
from headrace.stores.redis.connections.topology import Topology

PING_SECONDS = 5.0
"""How long a dead connection may look alive; waiters also poll."""


class PubSubConnection:
    """Listens to channels of one server until the connection is lost; `PubSub` then opens another one."""

    def __init__(self, server: Server, on_message: Callable[[str, bytes], None]) -> None:
        self.server = server
        self._on_message = on_message
        self._connection: RedisConnection | None = None
        self._pending: deque[tuple[str, asyncio.Future[None]]] = deque()
        self._subscriptions: dict[str, asyncio.Future[None]] = {}
        self._pinged_at = 0.0
        self._has_ponged = True
        self.is_lost = False

    async def open(self) -> None:
        """Connect."""
        self._connection = await self.server.open_listener(self._on_reply, self._on_lost)

    def is_subscribed(self, channels: Sequence[str]) -> bool:
        """Whether every message on these channels arrives already."""
        subscriptions = self._subscriptions
        return not self.is_lost and all(
            channel in subscriptions and subscriptions[channel].done() for channel in channels
        )

    async def subscribe(self, channels: Sequence[str]) -> None:
        """Returns when every message from now on arrives; raises the error of the server otherwise."""
        new = [channel for channel in channels if channel not in self._subscriptions]
        if self._connection is None or self.is_lost:
            raise StoreUnavailable(f"redis at {self.server.address} dropped the connection; is it running?")
        loop = asyncio.get_running_loop()
        for channel in new:
            self._subscriptions[channel] = loop.create_future()
            self._pending.append((channel, self._subscriptions[channel]))
        # One command each: on a cluster the channels of one command must share a slot.
        self._connection.write([["SSUBSCRIBE", channel] for channel in new])
        for channel in channels:
            subscribed = self._subscriptions.get(channel)
            if subscribed is not None:
                await asyncio.shield(subscribed)  # other callers may wait for the same channel

    def unsubscribe(self, channels: Sequence[str]) -> None:
        """Leave channels."""
        known = [channel for channel in channels if self._subscriptions.pop(channel, None) is not None]
        if self._connection is not None:
            self._connection.write([["SUNSUBSCRIBE", channel] for channel in known])

    def check(self, now: float) -> None:
        """Send a PING now and then; a connection that has not answered the last one is dead."""
        if self._connection is None or now < self._pinged_at + PING_SECONDS:
            return
        if not self._has_ponged:
            self._connection.close("no answer to PING")
            return
        self._pinged_at, self._has_ponged = now, False
        self._connection.write([["PING"]])

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close("the store was closed")

    def _on_reply(self, reply: Any) -> None:
        if isinstance(reply, Exception):
            self._end_subscribe(reply)
            return
        match reply:
            case [b"smessage", channel, message]:
                self._on_message(channel.decode(), message)
            case [b"ssubscribe", *_]:
                self._end_subscribe(None)
            case [b"sunsubscribe", bytes() as channel, _]:
                # Sent by the server when the slot has moved to another one.
                subscribed = self._subscriptions.get(channel.decode())
                if subscribed is not None and subscribed.done():
                    del self._subscriptions[channel.decode()]
            case _:
                self._has_ponged = True

    def _end_subscribe(self, error: Exception | None) -> None:
        if not self._pending:
            return
        channel, subscribed = self._pending.popleft()
        if error is not None and self._subscriptions.get(channel) is subscribed:
            del self._subscriptions[channel]
        _finish(subscribed, error)

    def _on_lost(self, _: RedisConnection) -> None:
        self.is_lost = True
        for _channel, subscribed in self._pending:
            _finish(
                subscribed, StoreUnavailable(f"redis at {self.server.address} dropped the connection; is it running?")
            )
        self._pending.clear()
        self._subscriptions.clear()


def _finish(subscribed: asyncio.Future[None], error: Exception | None) -> None:
    if subscribed.done():
        return
    if error is None:
        subscribed.set_result(None)
    else:
        subscribed.set_exception(error)
        subscribed.exception()  # it may have no waiter any more


LINGER_SECONDS = 30.0
"""How long a channel stays subscribed after its last waiter: an idle worker waits again and again."""
LINGERING_MAX = 1_000
"""Channels that stay subscribed without a waiter; beyond, the oldest are left."""


class PubSub:
    """Keeps a listening connection for each master with waiters, and the channels that they use."""

    def __init__(
        self, topology: Topology, on_message: Callable[[str, bytes], None], linger_seconds: float = LINGER_SECONDS
    ) -> None:
        self._topology = topology
        self._on_message = on_message
        self._linger_seconds = linger_seconds
        self._connections: dict[Server, asyncio.Task[PubSubConnection]] = {}
        self._users: Counter[str] = Counter()
        self._left: dict[str, float] = {}
        self._leave_timer: asyncio.TimerHandle | None = None

    @contextmanager
    def using(self, channels: Sequence[str]) -> Iterator[None]:
        """Keeps channels subscribed while they are used, and for a while afterwards."""
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
            if len(self._left) > LINGERING_MAX or self._leave_timer is None:
                self._leave()

    def _leave(self) -> None:
        """Leave the channels that have been unused for long enough; runs again for the rest."""
        loop = asyncio.get_running_loop()
        before, beyond = loop.time() - self._linger_seconds, len(self._left) - LINGERING_MAX
        over = [channel for at, (channel, left) in enumerate(self._left.items()) if left <= before or at < beyond]
        for channel in over:
            del self._left[channel]
        for connection in self._open_connections():
            connection.unsubscribe(over)
        if self._leave_timer is not None:
            self._leave_timer.cancel()
        first = next(iter(self._left.values()), None)
        # A little later than needed, so that the clock has certainly passed it.
        self._leave_timer = None if first is None else loop.call_at(first + self._linger_seconds + 0.001, self._leave)

    async def listen(self, channels: Sequence[str]) -> None:
        """Returns when messages on the channels arrive from now on, or cannot be had for the moment."""
        now = asyncio.get_running_loop().time()
        try:
            groups: dict[Server, list[str]] = {}
            for channel in channels:
                groups.setdefault(await self._topology.server_of(channel), []).append(channel)
            for server, server_channels in groups.items():
                await self._listen_to(server, server_channels, now)
        except HeadraceError:
            return  # the waiter polls instead, and its poll raises the error

    async def _listen_to(self, server: Server, channels: Sequence[str], now: float) -> None:
        task = self._connections.get(server)
        connection = _open_connection(task)
        if connection is not None and connection.is_subscribed(channels):
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
        except ReplyError as error:
            await self._topology.refresh(server, error)
        finally:
            self._drop_lost()

    async def _open(self, server: Server) -> PubSubConnection:
        connection = PubSubConnection(server, self._on_message)
        await connection.open()
        return connection

    def _open_connections(self) -> list[PubSubConnection]:
        return [connection for task in self._connections.values() if (connection := _open_connection(task)) is not None]

    def _drop_lost(self) -> None:
        open_servers = {connection.server for connection in self._open_connections()}
        self._connections = {
            server: task for server, task in self._connections.items() if not task.done() or server in open_servers
        }

    def close(self) -> None:
        """Close all connections."""
        if self._leave_timer is not None:
            self._leave_timer.cancel()
        for connection in self._open_connections():
            connection.close()
        for task in self._connections.values():
            task.cancel()
        self._connections.clear()


def _open_connection(task: asyncio.Task[PubSubConnection] | None) -> PubSubConnection | None:
    if task is None or not task.done() or task.cancelled() or task.exception() is not None:
        return None
    connection = task.result()
    return None if connection.is_lost else connection
