"""An ear for each master, and the channels that somebody waits on."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from hiredis import ReplyError

from headrace.model.errors import HeadraceError
from headrace.stores.redis.ear import Ear
from headrace.stores.redis.server import Server, shared
from headrace.stores.redis.topology import Topology

LINGER_SECONDS = 30.0
"""How long a channel is listened to after the last waiter: an idle worker waits again and again."""
LINGERING_MAX = 1_000
"""Channels that are listened to although nobody waits; beyond, those that were left first go."""


class Ears:
    """One listening connection for each master, opened when somebody waits and shared by all."""

    def __init__(
        self, topology: Topology, on_message: Callable[[str, bytes], None], linger_seconds: float = LINGER_SECONDS
    ) -> None:
        self._topology = topology
        self._on_message = on_message
        self._linger_seconds = linger_seconds
        self._ears: dict[Server, asyncio.Task[Ear]] = {}
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
        for ear in self._open_ears():
            ear.unsubscribe(over)
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
        task = self._ears.get(server)
        ear = _opened(task)
        if ear is not None and ear.hears(channels):
            ear.check(now)
            return
        if task is None:
            self._drop_lost()
            task = self._ears[server] = asyncio.create_task(self._open(server))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            ear = await shared(task)
            if ear is not None:
                ear.check(now)
                await ear.subscribe(channels)
        except ReplyError as refused:
            await self._topology.look_again(server, refused)
        finally:
            self._drop_lost()

    async def _open(self, server: Server) -> Ear:
        ear = Ear(server, self._on_message)
        await ear.open()
        return ear

    def _open_ears(self) -> list[Ear]:
        return [ear for task in self._ears.values() if (ear := _opened(task)) is not None]

    def _drop_lost(self) -> None:
        open_ears = {ear.server for ear in self._open_ears()}
        self._ears = {server: task for server, task in self._ears.items() if not task.done() or server in open_ears}

    def close(self) -> None:
        """Let go of all connections."""
        if self._leaving is not None:
            self._leaving.cancel()
        for ear in self._open_ears():
            ear.close()
        for task in self._ears.values():
            task.cancel()
        self._ears.clear()


def _opened(task: asyncio.Task[Ear] | None) -> Ear | None:
    if task is None or not task.done() or task.cancelled() or task.exception() is not None:
        return None
    ear = task.result()
    return None if ear.is_lost else ear
