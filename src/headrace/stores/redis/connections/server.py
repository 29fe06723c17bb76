"""Shares a few connections to one server between all callers."""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headrace.model.errors import BadConfig, HeadraceError, StoreUnavailable
from headrace.stores.redis.connections.connection import Command, RedisConnection
from headrace.stores.redis.errors import startup_error
from headrace.stores.redis.url import Address, Credentials, RedisOptions

T = TypeVar("T")
DEPTH = 64
"""Exchanges in flight on one connection before another is opened: sharing saves system calls on both sides."""


class Server:
    """Opens connections on demand, up to a limit, and drops lost ones."""

    def __init__(
        self,
        address: Address,
        options: RedisOptions,
        *,
        credentials: Credentials | None = None,
        must_be_master: bool = False,
    ) -> None:
        self.address = address
        self._options = options
        self._credentials = options.credentials if credentials is None else credentials
        # A `WAIT` would hold up all other commands on the connection.
        self._depth = 1 if options.profile == "replicated" else DEPTH
        self._must_be_master = must_be_master
        self._connections: list[RedisConnection] = []
        self._opening: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def ready(self) -> RedisConnection | None:
        """The only connection, when it is open and not full; None when one has to be chosen or opened."""
        if len(self._connections) == 1 and not self._is_closed:
            connection = self._connections[0]
            if connection.is_open and connection.load < self._depth:
                return connection
        return None

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """As `RedisConnection.send`; without a connection, the error stands in the place of every reply."""
        try:
            connection = await self._connection()
        except HeadraceError as error:
            return [error] * len(commands)
        return await connection.send(commands)

    async def open_listener(
        self, listener: Callable[[Any], None], on_lost: Callable[[RedisConnection], None]
    ) -> RedisConnection:
        """A separate connection for pushed messages."""
        if self._is_closed:
            raise closed_error(self.address)
        connection = await self._connect(on_lost)
        connection.listener = listener
        return connection

    async def _connection(self) -> RedisConnection:
        while True:  # ends: every round opens a connection, and their number is limited
            if self._is_closed:
                raise closed_error(self.address)
            best = min((each for each in self._connections if each.is_open), key=lambda each: each.load, default=None)
            if best is not None and (best.load < self._depth or len(self._connections) >= self._options.connections):
                return best
            if self._opening is None:
                self._opening = asyncio.create_task(self._open())
                self._opening.add_done_callback(self._on_opened)
            await shared(self._opening)

    def _on_opened(self, task: asyncio.Task[None]) -> None:
        self._opening = None
        if not task.cancelled():
            task.exception()  # raised in its waiters; without any, it is of no interest

    async def _open(self) -> None:
        self._connections.append(await self._connect(self._on_lost))

    async def _connect(self, on_lost: Callable[[RedisConnection], None]) -> RedisConnection:
        connection = await connect(self.address, self._options, self._credentials, on_lost)
        if self._must_be_master:
            [role] = await connection.send([["ROLE"]])
            if not isinstance(role, list) or role[0] != b"master":
                connection.close()
                raise StoreUnavailable(f"redis at {self.address} is no longer the master; try again")
        return connection

    def _on_lost(self, connection: RedisConnection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)

    @property
    def load(self) -> int:
        """The number of exchanges in flight."""
        return sum(connection.load for connection in self._connections)

    async def close(self, why: str = "the store was closed") -> None:
        """Close all connections; calls in flight get an error."""
        self._is_closed = True
        if self._opening is not None:
            self._opening.cancel()
        for connection in list(self._connections):
            connection.close(why)
        await asyncio.sleep(0)  # the transports close their sockets in the next turn of the loop


async def connect(
    address: Address, options: RedisOptions, credentials: Credentials, on_lost: Callable[[RedisConnection], None]
) -> RedisConnection:
    """A connection with its user and database set."""
    loop = asyncio.get_running_loop()
    connection: RedisConnection | None = None
    try:
        async with asyncio.timeout(options.connect_ms / 1000):
            _, connection = await loop.create_connection(
                lambda: RedisConnection(str(address), options.reply_ms, on_lost),
                address.host,
                address.port,
                ssl=_tls(options),
            )
            await run_handshake(connection, address, _handshake(options, credentials))
    except (OSError, TimeoutError) as error:
        if connection is not None:
            connection.close()
        why = str(error) or f"not within {options.connect_ms} ms"
        raise StoreUnavailable(f"redis at {address} cannot be reached ({why}); is it running?") from error
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return connection


async def shared(task: asyncio.Task[T]) -> T | None:
    """The result of a task with several waiters, None when cancelled; a cancelled waiter leaves the task running."""
    await asyncio.wait({task})
    return None if task.cancelled() else task.result()


async def run_handshake(connection: RedisConnection, address: Address, commands: Sequence[Command]) -> list[Any]:
    """The replies to the commands with which a connection begins; raises the first error."""
    replies = await connection.send(commands) if commands else []
    for reply in replies:
        if isinstance(reply, Exception):
            raise startup_error(str(address), reply)
    return replies


def closed_error(address: Address) -> StoreUnavailable:
    """The error for a call after `close`."""
    return StoreUnavailable(f"the store on redis at {address} was closed; open it again")


def _handshake(options: RedisOptions, credentials: Credentials) -> list[Command]:
    commands: list[Command] = []
    if credentials.password or credentials.user:
        user = [credentials.user] if credentials.user else []
        commands.append(["AUTH", *user, credentials.password])
    if options.db and options.kind != "cluster":
        commands.append(["SELECT", options.db])
    return commands


def _tls(options: RedisOptions) -> ssl.SSLContext | None:
    if not options.tls:
        return None
    try:
        return ssl.create_default_context(cafile=options.tls_ca)
    except OSError as error:
        raise BadConfig(f"the certificates in tls_ca={options.tls_ca!r} cannot be read ({error})") from error
