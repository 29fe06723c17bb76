"""Sends functions and commands to the right server, and repeats them only when they certainly did not run."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headrace.model.errors import HeadraceError, OutcomeUnknown, StoreUnavailable
from headrace.stores.redis.connections.connection import Command, RedisConnection
from headrace.stores.redis.connections.server import Server
from headrace.stores.redis.connections.topology import Topology
from headrace.stores.redis.errors import (
    NotSent,
    ReplyLost,
    code_of,
    error_of,
    is_from_function,
    is_unknown_function,
    startup_error,
)
from headrace.stores.redis.library import Library

Argument = bytes | str | int | float

PAUSES_MS = (0, 5, 20, 50, 100, 200, 400)
"""Before each repetition of a call that certainly did not run: time for a small slot to move."""
READ_COMMANDS = frozenset(
    {"EXISTS", "HGET", "HGETALL", "HMGET", "TIME", "XRANGE", "ZCARD", "ZRANGE", "ZRANGEBYLEX", "ZSCORE"}
)
"""Plain commands that write nothing."""
REDIRECTIONS = frozenset({"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "MASTERDOWN"})
"""First words of replies of a server that does not, or not yet, hold the keys."""


class ServerCall(NamedTuple):
    """One call of a function; on a cluster all its keys are in one slot."""

    function: str
    keys: list[str]
    args: list[Argument]
    reads: bool = False
    """Writes nothing, so it may be repeated."""


class _Request(NamedTuple):
    """A command with its routing key, and its name for errors."""

    key: str
    command: Command
    reads: bool
    name: str


class _NowaitCall:
    """Passes on the reply to a call without a task, with errors of Headrace."""

    __slots__ = ("on_answer", "request", "server")

    def __init__(self, server: Server, request: _Request, on_answer: Callable[[Any], None]) -> None:
        self.server = server
        self.request = request
        self.on_answer = on_answer

    def done(self) -> bool:
        """False: a call without a task is never cancelled."""
        return False

    def set_result(self, replies: list[Any], /) -> None:
        """Pass on the reply."""
        [reply] = replies
        if isinstance(reply, Exception):
            is_missing = is_unknown_function(reply)  # it never ran; a repetition loads the library
            reply = _error_of(self.server, self.request, NotSent(str(reply)) if is_missing else reply)
        self.on_answer(reply)


class RedisClient:
    """Routes all calls of a store to its servers. Belongs to the event loop that opened it."""

    def __init__(self, topology: Topology, library: Library, *, replicas: int = 0, wait_ms: int = 0) -> None:
        self.topology = topology
        self.library = library
        self._wait: Command = ["WAIT", replicas, wait_ms] if replicas else ()
        self._replicas = replicas
        self.clustered = topology.clustered
        self._is_closed = False
        self._function_names: dict[str, str] = {}

    async def call(self, call: ServerCall) -> Any:
        """The reply to one call."""
        return _reply_or_raise(await self._send_one(self._request(call)))

    async def call_each(self, calls: Sequence[ServerCall]) -> list[Any]:
        """The replies to several calls in order, one round trip per server; errors stand in the place of replies."""
        if len(calls) == 1:
            return [await self._send_one(self._request(calls[0]))]
        return await self._send([self._request(call) for call in calls])

    def call_nowait(self, call: ServerCall, on_answer: Callable[[Any], None]) -> bool:
        """Write a call at once, without a task, a turn of the loop or a repetition; `on_answer` gets the reply or the
        error. False when nothing was sent, as without a single server that has a connection."""
        server, connection = self._ready()
        if server is None or connection is None:
            return False
        request = self._request(call)
        return connection.send_nowait(request.command, _NowaitCall(server, request, on_answer))

    async def command(self, *args: Argument) -> Any:
        """The reply to a plain command; its second word is the key."""
        return _reply_or_raise((await self._send([_plain(args)]))[0])

    async def command_each(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """As `call_each`, for plain commands."""
        return await self._send([_plain(command) for command in commands])

    def _request(self, call: ServerCall) -> _Request:
        try:
            function = self._function_names[call.function]
        except KeyError:
            function = self._function_names[call.function] = self.library.function(call.function)
        command = ["FCALL_RO" if call.reads else "FCALL", function, len(call.keys), *call.keys, *call.args]
        return _Request(call.keys[0], command, call.reads, call.function)

    def _ready(self) -> tuple[Server | None, RedisConnection | None]:
        """The server that holds all keys and its ready connection, as far as they exist."""
        server = self.topology.sole
        return server, None if server is None or self._wait or self._is_closed else server.ready

    async def _send_one(self, request: _Request) -> Any:
        """The reply to one request, or the error in its place."""
        server, connection = self._ready()
        if server is None or connection is None:
            return (await self._send([request]))[0]
        # Nearly every call: one server with one connection. The general path costs five more coroutines.
        [reply] = await connection.send([request.command])
        if not isinstance(reply, Exception):
            return reply
        answers: list[Any] = [None]
        if await self._fill(server, [request], [0], [reply], answers, {}):
            return (await self._send([request], PAUSES_MS[1:]))[0]
        return answers[0]

    async def _send(self, requests: Sequence[_Request], pauses_ms: Sequence[int] = PAUSES_MS) -> list[Any]:
        if self._is_closed:
            raise StoreUnavailable("the store on redis was closed; open it again")
        answers: list[Any] = [None] * len(requests)
        left = list(range(len(requests)))
        for pause_ms in pauses_ms:
            if pause_ms:
                await asyncio.sleep(pause_ms / 1000)
            left = await self._round(requests, left, answers)
            if not left:
                break
        return answers

    async def _round(self, requests: Sequence[_Request], left: list[int], answers: list[Any]) -> list[int]:
        """Send the requests at `left` and fill in their answers; returns the positions to send again."""
        groups: dict[Server, list[int]] = {}
        for index in left:
            try:
                groups.setdefault(await self.topology.server_of(requests[index].key), []).append(index)
            except HeadraceError as error:
                answers[index] = error
        sends = [self._send_to(server, [requests[index] for index in picks]) for server, picks in groups.items()]
        replies = [await sends[0]] if len(sends) == 1 else await asyncio.gather(*sends)
        again: list[int] = []
        repeatable: dict[tuple[Server, str], bool] = {}
        for (server, picks), server_replies in zip(groups.items(), replies, strict=True):
            again += await self._fill(server, requests, picks, server_replies, answers, repeatable)
        return again

    async def _fill(
        self,
        server: Server,
        requests: Sequence[_Request],
        picks: Sequence[int],
        replies: Sequence[Any],
        answers: list[Any],
        repeatable: dict[tuple[Server, str], bool],
    ) -> list[int]:
        """Fill in the replies of a server; returns the positions to send again."""
        again: list[int] = []
        for index, reply in zip(picks, replies, strict=True):
            if not isinstance(reply, Exception):
                answers[index] = reply
                continue
            request = requests[index]
            answers[index] = _error_of(server, request, reply)
            # One decision for all requests with the same reply; only `MOVED` concerns a single slot.
            case = (server, str(reply) if code_of(reply) == "MOVED" else f"{code_of(reply)} {request.reads}")
            try:
                if case not in repeatable:
                    repeatable[case] = await self._can_repeat(server, request, reply)
            except HeadraceError as error:
                answers[index] = error
                continue
            if repeatable[case]:
                again.append(index)
        return again

    async def _send_to(self, server: Server, requests: Sequence[_Request]) -> list[Any]:
        commands = [request.command for request in requests]
        if not self._wait or all(request.reads for request in requests):
            return await server.send(commands)
        *replies, acknowledged = await server.send([*commands, self._wait])
        if isinstance(acknowledged, int) and acknowledged >= self._replicas:
            return replies
        return [
            reply
            if request.reads or isinstance(reply, Exception)
            else self._replicas_error(server, request, acknowledged)
            for request, reply in zip(requests, replies, strict=True)
        ]

    def _replicas_error(self, server: Server, request: _Request, acknowledged: object) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"redis at {server.address} ran {request.name}, but expected {self._replicas} replicas to acknowledge it"
            f" and got {acknowledged}; a failover may lose it: check, or repeat it"
        )

    async def _can_repeat(self, server: Server, request: _Request, reply: Exception) -> bool:
        """Whether the request certainly did not run or writes nothing, and another attempt may succeed."""
        if isinstance(reply, NotSent):
            return True
        if isinstance(reply, ReplyLost):
            return request.reads
        if isinstance(reply, StoreUnavailable):  # no connection
            return await self.topology.refresh(server, reply)
        if isinstance(reply, HeadraceError):
            return False
        if is_unknown_function(reply):
            await self.load(server)
            return True
        return (
            code_of(reply) in REDIRECTIONS
            and not is_from_function(reply)
            and await self.topology.refresh(server, reply)
        )

    async def load(self, server: Server) -> None:
        """Load the library on a server; another client may do the same at the same time."""
        [reply] = await server.send([["FUNCTION", "LOAD", self.library.source]])
        if isinstance(reply, Exception) and "already exists" not in str(reply):
            raise startup_error(str(server.address), reply)

    async def load_everywhere(self) -> None:
        """Load the library on every master that lacks it."""
        for server in await self.topology.masters():
            # A full server refuses to load a library, but must serve its jobs.
            [found] = await server.send([["FUNCTION", "LIST", "LIBRARYNAME", self.library.name]])
            if not isinstance(found, list) or not found:
                await self.load(server)

    async def close(self) -> None:
        """Close all connections."""
        self._is_closed = True
        await self.topology.close()


def _plain(command: Sequence[Argument]) -> _Request:
    name = str(command[0]).upper()
    return _Request(str(command[1]), command, name in READ_COMMANDS, name)


def _error_of(server: Server, request: _Request, reply: Exception) -> HeadraceError:
    if isinstance(reply, HeadraceError):
        return reply
    return error_of(str(server.address), request.name, reply, reads=request.reads)


def _reply_or_raise(reply: Any) -> Any:
    if isinstance(reply, HeadraceError):
        raise reply
    return reply
