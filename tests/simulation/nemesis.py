"""The nemesis: kills, pauses and partitions processes, and moves the store's clock."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING

from headrace.model.job import State
from tests.simulation.history import Key
from tests.simulation.loop import drive
from tests.simulation.workers import SimWorker, Workers

if TYPE_CHECKING:
    from tests.simulation.world import World

JUMP_MS = 30_000


class Nemesis:
    """Injects one fault after another until it is cancelled; `stop_faults` ends those that last."""

    def __init__(self, world: "World", workers: Workers) -> None:
        self._world = world
        self._workers = workers
        self._rng = Random(world.rng.getrandbits(64))
        every: list[Callable[[], Awaitable[None] | None]] = [
            self._crash,
            self._crash_producer,
            self._pause,
            self._pause,
            self._cut,
            self._stop,
            self._jump,
        ]
        self._actions = [each for each in every if self._rng.random() < 0.7] or every
        self._gap_s = self._rng.choice((2.0, 5.0, 15.0))
        self._paused: list[tuple[SimWorker, float]] = []

    async def run(self) -> None:
        """Inject faults until cancelled."""
        while True:
            await asyncio.sleep(self._rng.random() * 2 * self._gap_s)
            self._rng.choice(self._actions)()

    def stop_faults(self) -> None:
        """Resume all paused processes."""
        for sim_worker, _ in list(self._paused):
            self._resume(sim_worker)

    def _pick(self) -> SimWorker | None:
        members = list(self._workers.alive())
        return self._rng.choice(members) if members else None

    def _count(self, kind: str) -> None:
        self._world.server.faults[kind] += 1

    def _crash(self) -> None:
        if (sim_worker := self._pick()) is not None:
            self._count("crash")
            self._workers.crash(sim_worker)

    def _crash_producer(self) -> None:
        living = [sim_process for sim_process in self._world.producers if not sim_process.over.is_set()]
        if len(living) > 1:  # keep the last one
            self._count("producer crash")
            sim_process = self._rng.choice(living)
            self._world.trace.add(sim_process.process, "is killed")
            self._world.loop.crash(sim_process.process)
            sim_process.over.set()

    def _stop(self) -> None:
        if (sim_worker := self._pick()) is not None:
            self._count("stop")
            self._workers.stop_worker(sim_worker)

    def _pause(self) -> None:
        if (sim_worker := self._pick()) is not None:
            self._count("pause")
            self._world.trace.add(sim_worker.sim_process.process, "stands still")
            self._world.loop.pause(sim_worker.sim_process.process)
            self._paused.append((sim_worker, self._world.loop.time()))
            self._world.loop.call_later(
                self._rng.random() * 3 * sim_worker.slot.lease_ms / 1000, self._resume, sim_worker
            )

    def _resume(self, sim_worker: SimWorker) -> None:
        for each in [each for each in self._paused if each[0] is sim_worker]:
            self._paused.remove(each)
            self._world.trace.add(sim_worker.sim_process.process, "goes on")
            sim_worker.sim_process.pauses.append((each[1], self._world.loop.time()))
            self._world.loop.resume(sim_worker.sim_process.process)

    def _cut(self) -> None:
        sim_worker = self._pick()
        others = [route for route in self._world.routes if not route.process.is_crashed]
        route = (
            sim_worker.sim_process.route
            if sim_worker is not None and self._rng.random() < 0.7
            else self._rng.choice(others)
        )
        if not route.is_cut:
            self._world.trace.add(route.process, "is cut off")
            route.cut()
            seconds = self._rng.random() * self._rng.choice((1.0, 10.0, 3 * self._world.lease_ms / 1000))
            self._world.loop.call_later(seconds, route.join)

    def _jump(self) -> None:
        ms = self._rng.randrange(-JUMP_MS, JUMP_MS)
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
