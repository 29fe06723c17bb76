"""Calls of functions and commands: sent to the right server, repeated only when they surely did not run."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headrace.model.errors import HeadraceError, OutcomeUnknown, StoreUnavailable
from headrace.stores.redis.connection import Command, RedisConnection
from headrace.stores.redis.errors import (
    NotSent,
    ReplyLost,
    bad_start,
    came_from_inside,
    code_of,
    error_of,
    is_unknown_function,
)
from headrace.stores.redis.library import Library
from headrace.stores.redis.server import Server
from headrace.stores.redis.topology import Topology

Argument = bytes | str | int | float

PAUSES_MS = (0, 5, 20, 50, 100, 200, 400)
"""Before a call that surely did not run is sent again: time for a small slot to move; then the caller is told."""
READ_COMMANDS = frozenset(
    {"EXISTS", "HGET", "HGETALL", "HMGET", "TIME", "XRANGE", "ZCARD", "ZRANGE", "ZRANGEBYLEX", "ZSCORE"}
)
"""Plain commands that change nothing."""
ELSEWHERE = frozenset({"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "MASTERDOWN"})
"""Replies of a server that is not, or not yet, the one to ask."""


class ServerCall(NamedTuple):
    """One call of a function; on a cluster all its keys are in one slot."""

    function: str
    keys: list[str]
    args: list[Argument]
    reads: bool = False
    """Changes nothing, so it may be sent again silently."""


class _Request(NamedTuple):
    """A command as it goes out, and what is said of it when it fails."""

    key: str
    command: Command
    reads: bool
    what: str


class _Posted:
    """A call that was posted: hands its reply on, an error in our words."""

    __slots__ = ("answered", "request", "server")

    def __init__(self, server: Server, request: _Request, answered: Callable[[Any], None]) -> None:
        self.server = server
        self.request = request
        self.answered = answered

    def done(self) -> bool:
        """What was posted stays on its way."""
        return False

    def set_result(self, replies: list[Any], /) -> None:
        """Hand the reply on."""
        [reply] = replies
        if isinstance(reply, Exception):
            is_missing = is_unknown_function(reply)  # it never ran, and is there when the call is made again
            reply = _ours(self.server, self.request, NotSent(str(reply)) if is_missing else reply)
        self.answered(reply)


class RedisClient:
    """What all parts of the store speak through. Belongs to the event loop that opened it."""

    def __init__(self, topology: Topology, library: Library, *, replicas: int = 0, wait_ms: int = 0) -> None:
        self.topology = topology
        self.library = library
        self._wait: Command = ["WAIT", replicas, wait_ms] if replicas else ()
        self._replicas = replicas
        self.clustered = topology.clustered
        self._is_closed = False

    async def call(self, call: ServerCall) -> Any:
        """The reply to one call."""
        return _raised(await self._answer(self._request(call)))

    async def call_each(self, calls: Sequence[ServerCall]) -> list[Any]:
        """The replies to several calls in order, one round trip per server; an error that concerns one call stands in
        its place."""
        if len(calls) == 1:
            return [await self._answer(self._request(calls[0]))]
        return await self._send([self._request(call) for call in calls])

    def post(self, call: ServerCall, answered: Callable[[Any], None]) -> bool:
        """Write a call at once, for `answered` to take the reply or the error where it arrives: without a task, a turn
        of the loop and a repetition. False when nothing was sent, as where no single server has a connection."""
        server, connection = self._ready()
        if server is None or connection is None:
            return False
        request = self._request(call)
        return connection.post(request.command, _Posted(server, request, answered))

    async def command(self, *args: Argument) -> Any:
        """The reply to a plain command; its second word is the key."""
        return _raised((await self._send([_plain(args)]))[0])

    async def command_each(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """As `call_each`, for plain commands."""
        return await self._send([_plain(command) for command in commands])

    def _request(self, call: ServerCall) -> _Request:
        verb = "FCALL_RO" if call.reads else "FCALL"
        command = [verb, self.library.function(call.function), len(call.keys), *call.keys, *call.args]
        return _Request(call.keys[0], command, call.reads, call.function)

    def _ready(self) -> tuple[Server | None, RedisConnection | None]:
        """The server that holds all keys, and a connection that can be asked at once, where there are such."""
        server = self.topology.sole
        return server, None if server is None or self._wait or self._is_closed else server.ready

    async def _answer(self, request: _Request) -> Any:
        """What came back for one request, or the error in its place."""
        server, connection = self._ready()
        if server is None or connection is None:
            return (await self._send([request]))[0]
        # Nearly every call: one server, and a connection to it. The way for many costs five coroutines more.
        [reply] = await connection.ask([request.command])
        if not isinstance(reply, Exception):
            return reply
        answers: list[Any] = [None]
        if await self._take(server, [request], [0], [reply], answers, {}):
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
        """Send what is left and fill in what comes back; returns what may be sent again."""
        groups: dict[Server, list[int]] = {}
        for index in left:
            try:
                groups.setdefault(await self.topology.server_of(requests[index].key), []).append(index)
            except HeadraceError as error:
                answers[index] = error
        parts = [self._part(server, [requests[index] for index in picks]) for server, picks in groups.items()]
        replies = [await parts[0]] if len(parts) == 1 else await asyncio.gather(*parts)
        again: list[int] = []
        tried: dict[tuple[Server, str], bool] = {}
        for (server, picks), part in zip(groups.items(), replies, strict=True):
            again += await self._take(server, requests, picks, part, answers, tried)
        return again

    async def _take(
        self,
        server: Server,
        requests: Sequence[_Request],
        picks: Sequence[int],
        replies: Sequence[Any],
        answers: list[Any],
        tried: dict[tuple[Server, str], bool],
    ) -> list[int]:
        """Fill in the replies of a server; returns what may be sent again."""
        again: list[int] = []
        for index, reply in zip(picks, replies, strict=True):
            if not isinstance(reply, Exception):
                answers[index] = reply
                continue
            request = requests[index]
            answers[index] = _ours(server, request, reply)
            # What holds for one holds for all that got the same answer; only `MOVED` is about one slot.
            case = (server, str(reply) if code_of(reply) == "MOVED" else f"{code_of(reply)} {request.reads}")
            try:
                if case not in tried:
                    tried[case] = await self._can_repeat(server, request, reply)
            except HeadraceError as error:
                answers[index] = error
                continue
            if tried[case]:
                again.append(index)
        return again

    async def _part(self, server: Server, requests: Sequence[_Request]) -> list[Any]:
        commands = [request.command for request in requests]
        if not self._wait or all(request.reads for request in requests):
            return await server.ask(commands)
        *replies, acknowledged = await server.ask([*commands, self._wait])
        if isinstance(acknowledged, int) and acknowledged >= self._replicas:
            return replies
        return [
            reply if request.reads or isinstance(reply, Exception) else self._too_few(server, request, acknowledged)
            for request, reply in zip(requests, replies, strict=True)
        ]

    def _too_few(self, server: Server, request: _Request, acknowledged: object) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"redis at {server.address} carried out {request.what}, but {self._replicas} replicas were to acknowledge"
            f" it and the answer was {acknowledged}; a failover may lose it: look, or ask again"
        )

    async def _can_repeat(self, server: Server, request: _Request, reply: Exception) -> bool:
        """Whether it surely did not run, or changes nothing, and another attempt may go better."""
        if isinstance(reply, NotSent):
            return True
        if isinstance(reply, ReplyLost):
            return request.reads
        if isinstance(reply, StoreUnavailable):  # no connection
            return await self.topology.look_again(server, reply)
        if isinstance(reply, HeadraceError):
            return False
        if is_unknown_function(reply):
            await self.load(server)
            return True
        return (
            code_of(reply) in ELSEWHERE
            and not came_from_inside(reply)
            and await self.topology.look_again(server, reply)
        )

    async def load(self, server: Server) -> None:
        """Put the library on a server; another client that does the same at the same time is no hindrance."""
        [reply] = await server.ask([["FUNCTION", "LOAD", self.library.source]])
        if isinstance(reply, HeadraceError):
            raise reply
        if isinstance(reply, (NotSent, ReplyLost)):
            raise StoreUnavailable(f"redis at {server.address} dropped the connection ({reply}); is it running?")
        if isinstance(reply, Exception) and "already exists" not in str(reply):
            raise bad_start(str(server.address), reply)

    async def load_everywhere(self) -> None:
        """Put the library on every master that does not have it."""
        for server in await self.topology.masters():
            # A full server takes no library, and must be able to hand out what it holds all the same.
            [found] = await server.ask([["FUNCTION", "LIST", "LIBRARYNAME", self.library.name]])
            if not isinstance(found, list) or not found:
                await self.load(server)

    async def close(self) -> None:
        """Let go of all connections."""
        self._is_closed = True
        await self.topology.close()


def _plain(command: Sequence[Argument]) -> _Request:
    name = str(command[0]).upper()
    return _Request(str(command[1]), command, name in READ_COMMANDS, name)


def _ours(server: Server, request: _Request, reply: Exception) -> HeadraceError:
    if isinstance(reply, HeadraceError):
        return reply
    return error_of(str(server.address), request.what, reply, reads=request.reads)


def _raised(answer: Any) -> Any:
    if isinstance(answer, HeadraceError):
        raise answer
    return answer
