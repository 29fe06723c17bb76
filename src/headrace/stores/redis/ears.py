"""An ear for each master, and the channels that somebody has waited on lately."""

import asyncio
from collections.abc import Callable, Sequence

from hiredis import ReplyError

from headrace.model.errors import HeadraceError
from headrace.stores.redis.ear import Ear
from headrace.stores.redis.server import Server, shared
from headrace.stores.redis.topology import Topology

LINGER_SECONDS = 30.0
"""How long a channel is listened to after its last waiter: a worker waits again and again on the same queues."""


class Ears:
    """One listening connection for each master, opened when somebody waits and shared by all."""

    def __init__(self, topology: Topology, on_message: Callable[[str], None]) -> None:
        self._topology = topology
        self._on_message = on_message
        self._ears: dict[Server, asyncio.Task[Ear]] = {}
        self._used_at: dict[str, float] = {}
        self._swept_at = 0.0

    async def listen(self, channels: Sequence[str]) -> None:
        """Returns when wake-ups on the channels arrive from now on, or cannot be had for the moment."""
        now = asyncio.get_running_loop().time()
        self._used_at.update(dict.fromkeys(channels, now))
        self._sweep(now)
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

    def _drop_lost(self) -> None:
        lost = [
            server
            for server, task in self._ears.items()
            if task.done() and (task.cancelled() or task.exception() is not None or task.result().is_lost)
        ]
        for server in lost:
            del self._ears[server]

    def _sweep(self, now: float) -> None:
        if now < self._swept_at + LINGER_SECONDS:
            return
        self._swept_at = now
        unused = [channel for channel, used_at in self._used_at.items() if used_at + LINGER_SECONDS < now]
        for channel in unused:
            del self._used_at[channel]
        for task in self._ears.values():
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().unsubscribe(unused)

    def close(self) -> None:
        """Let go of all connections."""
        for task in self._ears.values():
            if not task.done():
                task.cancel()
            elif not task.cancelled() and task.exception() is None:
                task.result().close()
        self._ears.clear()
        self._used_at.clear()
