"""One connection to a server: commands out, replies back in order, and the truth about what was not answered."""

import asyncio
import select
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import hiredis

from headrace.stores.redis.errors import NotSent, ReplyLost

Command = Sequence[str | bytes | int | float]


class Waiter(Protocol):
    """Takes the replies to an exchange: a future, or a callback in its shape, which must not raise."""

    def done(self) -> bool:
        """Whether nobody wants the replies any more."""

    def set_result(self, replies: list[Any], /) -> None:
        """Take them."""


class _Exchange:
    """Some commands that left together, and the replies that have arrived so far."""

    __slots__ = ("count", "packed", "replies", "told")

    def __init__(self, packed: bytes, count: int, told: Waiter) -> None:
        self.packed = packed
        self.count = count
        self.replies: list[Any] = []
        self.told = told


class RedisConnection(asyncio.Protocol):
    """Shared by all callers at once: a server answers in order, so the n-th reply belongs to the n-th command.

    A caller that goes away leaves its place in the line: its reply is thrown away when it comes, and can never be taken
    for another's. A server that says nothing for `reply_ms` loses the connection, with all who wait on it.
    """

    def __init__(self, where: str, reply_ms: int, on_lost: Callable[["RedisConnection"], None]) -> None:
        self.where = where
        self._reply_seconds = reply_ms / 1000
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[_Exchange] = []
        self._sent: deque[_Exchange] = deque()
        self._watch: asyncio.TimerHandle | None = None
        self._heard_at = 0.0
        self._why = "the connection was closed"
        self._poll = select.poll()
        self.is_open = False
        self.listener: Callable[[Any], None] | None = None
        """Takes everything that comes in from then on; nobody may `ask` any more."""

    @property
    def load(self) -> int:
        """How many exchanges are under way."""
        return len(self._sent) + len(self._unsent)

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Replies in order; an error reply, `NotSent` or `ReplyLost` stands in the place of the reply it concerns."""
        if not self.is_open:
            return [NotSent(self._why)] * len(commands)
        packed = _packed(commands[0]) if len(commands) == 1 else b"".join(map(_packed, commands))
        told: asyncio.Future[list[Any]] = self._loop.create_future()
        exchange = _Exchange(packed, len(commands), told)
        if self._unsent or self._sent:
            if not self._unsent:
                # What is asked for in one turn of the loop leaves in one packet.
                self._loop.call_soon(self._flush)
            self._unsent.append(exchange)
        elif self._transport is not None and self._is_quiet():
            self._send([exchange], self._transport)  # nothing is under way: there is nobody to wait for
        else:
            self._loop.call_soon(self._loop.call_soon, self._flush)  # behind what the loop finds on its way round
            self._unsent.append(exchange)
        return await told

    def post(self, command: Command, told: Waiter) -> bool:
        """Write one command where this is called, not at the end of the turn; False when it was not sent."""
        if self._transport is None or not self.is_open:
            return False
        if self._unsent:
            self._unsent.append(_Exchange(_packed(command), 1, told))
        elif self._sent or self._is_quiet():
            self._send([_Exchange(_packed(command), 1, told)], self._transport)
        else:
            return False
        return True

    def tell(self, commands: Sequence[Command]) -> None:
        """Send commands whose answers are for the listener."""
        if self._transport is not None and self.is_open:
            self._transport.write(b"".join(map(_packed, commands)))

    def close(self, why: str = "the connection was closed") -> None:
        """Drop the connection; those who wait are told."""
        self._why = why
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _is_quiet(self) -> bool:
        """Whether nothing has come in: where no reply is owed, that is the end of the connection, which the event loop
        may not have seen yet. What is sent then would be lost, and what is not sent can be sent again."""
        return not self._poll.poll(0)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is None or not self.is_open:
            self._tell(unsent, NotSent(self._why))
            return
        leaving = [each for each in unsent if not each.told.done()]
        if leaving:
            self._send(leaving, self._transport)

    def _send(self, leaving: list[_Exchange], transport: asyncio.Transport) -> None:
        if not self._sent:
            self._heard_at = self._loop.time()
        self._sent.extend(leaving)
        if self._watch is None:
            self._watch = self._loop.call_later(self._reply_seconds, self._check)
        transport.write(leaving[0].packed if len(leaving) == 1 else b"".join([each.packed for each in leaving]))

    def _check(self) -> None:
        self._watch = None
        if not self._sent:
            return
        left = self._heard_at + self._reply_seconds - self._loop.time()
        if left <= 0:
            self.close(f"no reply within {self._reply_seconds * 1000:.0f} ms")
        else:
            self._watch = self._loop.call_later(left, self._check)

    def _tell(self, exchanges: Sequence[_Exchange], missing: Exception) -> None:
        for each in exchanges:
            if not each.told.done():
                each.told.set_result(each.replies + [missing] * (each.count - len(each.replies)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: the transports of other event loops, such as uvloop's, are of no class of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True
        # A connection that a firewall forgot is found dead by itself, not by a caller.
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._poll.register(connection.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self._take(reply)
        except hiredis.ProtocolError as error:
            self.close(f"what came back is not Redis ({error})")

    def _take(self, reply: Any) -> None:
        if self.listener is not None:
            self.listener(reply)
            return
        if not self._sent:
            self.close(f"an unasked reply came: {str(reply)[:80]}")
            return
        first = self._sent[0]
        first.replies.append(reply)
        if len(first.replies) == first.count:
            self._sent.popleft()
            if not first.told.done():
                first.told.set_result(first.replies)

    def eof_received(self) -> None:
        self.is_open = False  # nobody may send on it any more; what was sent before is told when it is lost

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if exc is not None:
            self._why = str(exc) or type(exc).__name__
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        sent, self._sent = self._sent, deque()
        self._tell(list(sent), ReplyLost(self._why))
        unsent, self._unsent = self._unsent, []
        self._tell(unsent, NotSent(self._why))
        self._on_lost(self)


def _packed(command: Command) -> bytes:
    packed: bytes = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]  # its stub means one item, not many
    return packed
