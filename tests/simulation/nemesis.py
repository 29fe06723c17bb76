"""The nemesis: kills, pauses and cuts off processes, and turns the store's clock."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING

from headrace.model.job import State
from tests.simulation.history import Key
from tests.simulation.loop import drive
from tests.simulation.workers import Crew, Mate

if TYPE_CHECKING:
    from tests.simulation.world import World

JUMP_MS = 30_000


class Nemesis:
    """Does one bad thing after another until it is cancelled; `heal` makes good what lasts."""

    def __init__(self, world: "World", crew: Crew) -> None:
        self._world = world
        self._crew = crew
        self._chance = Random(world.chance.getrandbits(64))
        every: list[Callable[[], Awaitable[None] | None]] = [
            self._crash,
            self._crash_producer,
            self._pause,
            self._pause,
            self._cut,
            self._stop,
            self._jump,
        ]
        self._means = [each for each in every if self._chance.random() < 0.7] or every
        self._gap_s = self._chance.choice((2.0, 5.0, 15.0))
        self._paused: list[tuple[Mate, float]] = []

    async def run(self) -> None:
        """One after another."""
        while True:
            await asyncio.sleep(self._chance.random() * 2 * self._gap_s)
            self._chance.choice(self._means)()

    def heal(self) -> None:
        """Let everybody go on."""
        for mate, _ in list(self._paused):
            self._resume(mate)

    def _pick(self) -> Mate | None:
        mates = list(self._crew.alive())
        return self._chance.choice(mates) if mates else None

    def _count(self, kind: str) -> None:
        self._world.server.faults[kind] += 1

    def _crash(self) -> None:
        if (mate := self._pick()) is not None:
            self._count("crash")
            self._crew.crash(mate)

    def _crash_producer(self) -> None:
        living = [life for life in self._world.producers if not life.over.is_set()]
        if len(living) > 1:  # the last one goes on, or there would be nothing to see
            self._count("producer crash")
            life = self._chance.choice(living)
            self._world.trace.add(life.process, "is killed")
            self._world.loop.crash(life.process)
            life.over.set()

    def _stop(self) -> None:
        if (mate := self._pick()) is not None:
            self._count("stop")
            self._crew.ask_to_stop(mate)

    def _pause(self) -> None:
        if (mate := self._pick()) is not None:
            self._count("pause")
            self._world.trace.add(mate.life.process, "stands still")
            self._world.loop.pause(mate.life.process)
            self._paused.append((mate, self._world.loop.time()))
            self._world.loop.call_later(self._chance.random() * 3 * mate.post.lease_ms / 1000, self._resume, mate)

    def _resume(self, mate: Mate) -> None:
        for each in [each for each in self._paused if each[0] is mate]:
            self._paused.remove(each)
            self._world.trace.add(mate.life.process, "goes on")
            mate.life.pauses.append((each[1], self._world.loop.time()))
            self._world.loop.resume(mate.life.process)

    def _cut(self) -> None:
        mate = self._pick()
        others = [way for way in self._world.ways if not way.process.is_crashed]
        way = mate.life.way if mate is not None and self._chance.random() < 0.7 else self._chance.choice(others)
        if not way.is_cut:
            self._world.trace.add(way.process, "is cut off")
            way.cut()
            seconds = self._chance.random() * self._chance.choice((1.0, 10.0, 3 * self._world.lease_ms / 1000))
            self._world.loop.call_later(seconds, way.join)

    def _jump(self) -> None:
        ms = self._chance.randrange(-JUMP_MS, JUMP_MS)
        self._count("clock jump")
        self._world.trace.add("store", f"clock jumps by {ms} ms")
        if ms < 0:
            self._world.checker.clock_goes_back(self._active())
        self._world.server.clock.skew_ms += ms
        self._world.checker.jumps.append(self._world.loop.time())

    def _active(self) -> set[tuple[Key, int]]:
        found: set[tuple[Key, int]] = set()
        store = self._world.server.store
        for queue in self._world.queues:
            for each in (queue, queue.fail_queue):
                for shard in each.all_shards():
                    for row in drive(store.reads.snapshot(shard, now_ms=0)).rows:
                        if row.state is State.ACTIVE:
                            found.add(((each.full_name, row.id), row.fence or 0))
        return found
