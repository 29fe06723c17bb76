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


class Ears:
    """One listening connection for each master, opened when somebody waits and shared by all."""

    def __init__(self, topology: Topology, on_message: Callable[[str], None]) -> None:
        self._topology = topology
        self._on_message = on_message
        self._ears: dict[Server, asyncio.Task[Ear]] = {}
        self._users: Counter[str] = Counter()

    @contextmanager
    def using(self, channels: Sequence[str]) -> Iterator[None]:
        """Channels are listened to no longer than somebody uses them."""
        self._users.update(channels)
        try:
            yield
        finally:
            self._users.subtract(channels)
            unused = [channel for channel in channels if not self._users[channel]]
            for channel in unused:
                del self._users[channel]
            for ear in self._open_ears():
                ear.unsubscribe(unused)

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
        ended = [task for task in self._ears.values() if task.done() and not task.cancelled()]
        return [ear for task in ended if task.exception() is None and not (ear := task.result()).is_lost]

    def _drop_lost(self) -> None:
        open_ears = {ear.server for ear in self._open_ears()}
        self._ears = {server: task for server, task in self._ears.items() if not task.done() or server in open_ears}

    def close(self) -> None:
        """Let go of all connections."""
        for ear in self._open_ears():
            ear.close()
        for task in self._ears.values():
            task.cancel()
        self._ears.clear()
