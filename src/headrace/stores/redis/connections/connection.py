"""Sends commands over one connection, and matches replies to them in order."""

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
    """Takes the replies to an exchange: a future, or a callback of the same shape, which must not raise."""

    def done(self) -> bool:
        """Whether the replies are no longer wanted."""

    def set_result(self, replies: list[Any], /) -> None:
        """Take the replies."""


class _Exchange:
    """Commands sent together, and their replies so far."""

    __slots__ = ("count", "packed", "replies", "waiter")

    def __init__(self, packed: bytes, count: int, waiter: Waiter) -> None:
        self.packed = packed
        self.count = count
        self.replies: list[Any] = []
        self.waiter = waiter


class RedisConnection(asyncio.Protocol):
    """Shared by all callers at once: a server answers in order, so the n-th reply belongs to the n-th command.

    A cancelled caller keeps its place in the order: its reply is dropped on arrival, and never given to another caller.
    A server that is silent for `reply_ms` loses the connection, with all calls in flight.
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
        self._reply_timer: asyncio.TimerHandle | None = None
        self._received_at = 0.0
        self._reason = "the connection was closed"
        self._poll = select.poll()
        self.is_open = False
        self.listener: Callable[[Any], None] | None = None
        """Takes every reply from then on; `send` must not be used any more."""

    @property
    def load(self) -> int:
        """The number of exchanges in flight."""
        return len(self._sent) + len(self._unsent)

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Replies in order; an error reply, `NotSent` or `ReplyLost` stands in the place of the reply it concerns."""
        if not self.is_open:
            return [NotSent(self._reason)] * len(commands)
        packed = _packed(commands[0]) if len(commands) == 1 else b"".join(map(_packed, commands))
        waiter: asyncio.Future[list[Any]] = self._loop.create_future()
        exchange = _Exchange(packed, len(commands), waiter)
        if self._unsent or self._sent:
            if not self._unsent:
                # The commands of one turn of the loop leave in one packet.
                self._loop.call_soon(self._flush)
            self._unsent.append(exchange)
        elif self._transport is not None and self._has_no_input():
            self._write_exchanges([exchange], self._transport)  # nothing is in flight: there is nothing to wait for
        else:
            self._loop.call_soon(self._loop.call_soon, self._flush)  # after the callbacks that become ready now
            self._unsent.append(exchange)
        return await waiter

    def send_nowait(self, command: Command, waiter: Waiter) -> bool:
        """Write one command at once, not at the end of the turn; False when it was not sent."""
        if self._transport is None or not self.is_open:
            return False
        if self._unsent:
            self._unsent.append(_Exchange(_packed(command), 1, waiter))
        elif self._sent or self._has_no_input():
            self._write_exchanges([_Exchange(_packed(command), 1, waiter)], self._transport)
        else:
            return False
        return True

    def write(self, commands: Sequence[Command]) -> None:
        """Send commands whose replies go to the listener."""
        if self._transport is not None and self.is_open:
            self._transport.write(b"".join(map(_packed, commands)))

    def close(self, reason: str = "the connection was closed") -> None:
        """Drop the connection; calls in flight get the reason."""
        self._reason = reason
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _has_no_input(self) -> bool:
        """Whether there is nothing to read. Input without an open request is the end of the connection, which the event
        loop may not have seen yet: a command sent now would be lost, a command not sent can be repeated."""
        return not self._poll.poll(0)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is None or not self.is_open:
            self._fail(unsent, NotSent(self._reason))
            return
        leaving = [each for each in unsent if not each.waiter.done()]
        if leaving:
            self._write_exchanges(leaving, self._transport)

    def _write_exchanges(self, leaving: list[_Exchange], transport: asyncio.Transport) -> None:
        if not self._sent:
            self._received_at = self._loop.time()
        self._sent.extend(leaving)
        if self._reply_timer is None:
            self._reply_timer = self._loop.call_later(self._reply_seconds, self._check_timeout)
        transport.write(leaving[0].packed if len(leaving) == 1 else b"".join([each.packed for each in leaving]))

    def _check_timeout(self) -> None:
        self._reply_timer = None
        if not self._sent:
            return
        left = self._received_at + self._reply_seconds - self._loop.time()
        if left <= 0:
            self.close(f"no reply within {self._reply_seconds * 1000:.0f} ms")
        else:
            self._reply_timer = self._loop.call_later(left, self._check_timeout)

    def _fail(self, exchanges: Sequence[_Exchange], missing: Exception) -> None:
        for each in exchanges:
            if not each.waiter.done():
                each.waiter.set_result(each.replies + [missing] * (each.count - len(each.replies)))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Not asserted: the transports of other event loops, such as uvloop's, are no subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True
        # Keep-alive finds a connection that a firewall has dropped before a caller does.
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._poll.register(connection.fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        self._received_at = self._loop.time()
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not False:
                self._on_reply(reply)
        except hiredis.ProtocolError as error:
            self.close(f"what came back is not Redis ({error})")

    def _on_reply(self, reply: Any) -> None:
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
            if not first.waiter.done():
                first.waiter.set_result(first.replies)

    def eof_received(self) -> None:
        self.is_open = False  # no more commands; those in flight fail when the connection is lost

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if exc is not None:
            self._reason = str(exc) or type(exc).__name__
        if self._reply_timer is not None:
            self._reply_timer.cancel()
            self._reply_timer = None
        sent, self._sent = self._sent, deque()
        self._fail(list(sent), ReplyLost(self._reason))
        unsent, self._unsent = self._unsent, []
        self._fail(unsent, NotSent(self._reason))
        self._on_lost(self)


def _packed(command: Command) -> bytes:
    packed: bytes = hiredis.pack_command(tuple(command))  # type: ignore[arg-type]  # its stub means one item, not many
    return packed
