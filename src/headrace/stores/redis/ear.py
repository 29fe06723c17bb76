"""The connection on which a server's wake-ups arrive."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from headrace.model.errors import StoreUnavailable
from headrace.stores.redis.server import Server
from headrace.stores.redis.wire import Wire

PING_SECONDS = 5.0
"""How long a dead connection may look alive; waiters also look by themselves."""


class Ear:
    """Listens to channels of one server until the connection is lost; a new ear is made then."""

    def __init__(self, server: Server, on_message: Callable[[str, bytes], None]) -> None:
        self.server = server
        self._on_message = on_message
        self._wire: Wire | None = None
        self._asked: deque[tuple[str, asyncio.Future[None]]] = deque()
        self._heard: dict[str, asyncio.Future[None]] = {}
        self._pinged_at = 0.0
        self._is_answered = True
        self.is_lost = False

    async def open(self) -> None:
        """Connect."""
        self._wire = await self.server.listening(self._take, self._lost)

    def hears(self, channels: Sequence[str]) -> bool:
        """Whether every wake-up on these channels arrives already."""
        heard = self._heard
        return not self.is_lost and all(channel in heard and heard[channel].done() for channel in channels)

    async def subscribe(self, channels: Sequence[str]) -> None:
        """Returns when every wake-up from now on will arrive; raises what the server said otherwise."""
        new = [channel for channel in channels if channel not in self._heard]
        if self._wire is None or self.is_lost:
            raise StoreUnavailable(f"redis at {self.server.address} dropped the connection; is it running?")
        loop = asyncio.get_running_loop()
        for channel in new:
            self._heard[channel] = loop.create_future()
            self._asked.append((channel, self._heard[channel]))
        # One command each: on a cluster the channels of one command must share a slot.
        self._wire.tell([["SSUBSCRIBE", channel] for channel in new])
        for channel in channels:
            told = self._heard.get(channel)
            if told is not None:
                await asyncio.shield(told)  # others may wait for the same one

    def unsubscribe(self, channels: Sequence[str]) -> None:
        """Listen no longer."""
        known = [channel for channel in channels if self._heard.pop(channel, None) is not None]
        if self._wire is not None:
            self._wire.tell([["SUNSUBSCRIBE", channel] for channel in known])

    def check(self, now: float) -> None:
        """Ask for a sign of life; a connection that gave none since the last time is dead and does not know it."""
        if self._wire is None or now < self._pinged_at + PING_SECONDS:
            return
        if not self._is_answered:
            self._wire.close("no answer to PING")
            return
        self._pinged_at, self._is_answered = now, False
        self._wire.tell([["PING"]])

    def close(self) -> None:
        """Let go of the connection."""
        if self._wire is not None:
            self._wire.close("the store was closed")

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

    def _lost(self, _: Wire) -> None:
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
