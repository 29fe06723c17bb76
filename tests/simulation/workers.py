"""The workers of a simulation: real workers in simulated processes, each replaced when it has ended."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.model.names import Queue
from headrace.worker.config import WorkerConfig
from headrace.worker.worker import Worker
from tests.simulation.handlers import make_handlers
from tests.simulation.history import SimProcess
from tests.simulation.loop import within
from tests.simulation.rules import RECOVERY_S

if TYPE_CHECKING:
    from tests.simulation.world import World

IDLE_S = 5.0
"""A worker that is idle for so long knows of every job that is due."""
STOP_S = 8.0
"""Time of a worker beyond its grace time: for handlers that do not end, and for the last settlements."""


class WorkerSlot(Struct):
    """The settings of one worker after the other."""

    name: str
    queues: list[Queue]
    shares: dict[str | Queue, int] | None
    capacity: int
    heavy: int
    lease_ms: int
    heartbeat_ms: int | None
    grace_ms: int
    starts: int = 0


class SimWorker:
    """A worker in its simulated process."""

    def __init__(self, slot: WorkerSlot, sim_process: SimProcess, worker: Worker, task: "asyncio.Task[None]") -> None:
        self.slot = slot
        self.sim_process = sim_process
        self.worker = worker
        self.task = task
        self.is_gone = False

    def is_idle(self, now: float) -> bool:
        """Whether it has been idle for a while."""
        return not self.sim_process.running and now > self.sim_process.busy_at + IDLE_S


class Workers:
    """One to three workers; the first one serves all queues."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._rng = Random(world.rng.getrandbits(64))
        self._deaths = [queue for queue in world.queues if self._rng.random() < 0.2]
        self._slots = [self._draw_slot(number) for number in range(self._rng.choice((1, 2, 2, 3)))]
        self.members: list[SimWorker] = []
        self.is_closing = False
        self._restarts_pending = 0

    def _draw_slot(self, number: int) -> WorkerSlot:
        rng, queues = self._rng, self._world.queues
        mine = queues if number == 0 or rng.random() < 0.5 else [rng.choice(queues)]
        capacity = rng.choice((1, 2, 3, 4, 8, 20))
        lease_ms = self._world.lease_ms
        return WorkerSlot(
            f"worker-{number}",
            mine,
            {queue: rng.randrange(1, 4) for queue in mine} if rng.random() < 0.3 else None,
            capacity,
            min(capacity, 3),
            lease_ms,
            rng.choice((None, None, lease_ms // 2, lease_ms // 4)),
            rng.choice((0, 500, 5_000)),
        )

    def start(self) -> None:
        """Start all workers."""
        for slot in self._slots:
            self._start_worker(slot)

    def _start_worker(self, slot: WorkerSlot) -> None:
        slot.starts += 1
        world, rng = self._world, Random(self._rng.getrandbits(64))
        heartbeat_ms = slot.heartbeat_ms or slot.lease_ms // 3
        name = f"{slot.name}.{slot.starts}"
        sim_process, link = world.start_process(name, capacity=slot.capacity, heartbeat_s=heartbeat_ms / 1000)
        handlers = make_handlers(world.checker, sim_process.process, slot.queues, slot.heavy, self._deaths)
        config = WorkerConfig(
            queues=slot.shares or slot.queues,
            # Half of the workers restart under their old name, as in a deployment with fixed names.
            name=slot.name if self._rng.random() < 0.5 else name,
            capacity=slot.capacity,
            lease=slot.lease_ms / 1000,
            heartbeat=None if slot.heartbeat_ms is None else slot.heartbeat_ms / 1000,
            grace=slot.grace_ms / 1000,
            poll=self._rng.choice((10, 30)),
            repair=self._rng.choice((10, 60, 300)),
        )
        worker = Worker(link, handlers, config, rng=rng, random_bytes=rng.randbytes)
        sim_worker = SimWorker(slot, sim_process, worker, world.loop.spawn(sim_process.process, worker.run()))
        sim_worker.task.add_done_callback(lambda _: self._ended(sim_worker), context=within(None))
        self.members.append(sim_worker)
        world.trace.add(name, "is there")

    def alive(self) -> Iterator[SimWorker]:
        """The workers that are running: neither ended nor stopping nor paused."""
        for sim_worker in self.members:
            if (
                not sim_worker.is_gone
                and sim_worker.sim_process.stopped_at is None
                and not sim_worker.sim_process.process.is_paused
            ):
                yield sim_worker

    @property
    def is_working(self) -> bool:
        """Whether a worker is running or will be restarted."""
        return self._restarts_pending > 0 or not all(sim_worker.is_gone for sim_worker in self.members)

    def crash(self, sim_worker: SimWorker) -> None:
        """SIGKILL; another worker starts after a while."""
        self._world.trace.add(sim_worker.sim_process.process, "is killed")
        self._leave(sim_worker)

    def _leave(self, sim_worker: SimWorker) -> None:
        world = self._world
        sim_worker.is_gone = True
        world.loop.crash(sim_worker.sim_process.process)
        world.checker.crashed(sim_worker.sim_process)
        if not self.is_closing:
            delay = self._rng.random() * self._rng.choice((0.5, 5.0, 2 * sim_worker.slot.lease_ms / 1000))
            self._restarts_pending += 1
            world.loop.call_later(delay, self._replace, sim_worker.slot, context=within(None))

    def _replace(self, slot: WorkerSlot) -> None:
        self._restarts_pending -= 1
        if not self.is_closing:
            self._start_worker(slot)

    def stop_any(self) -> None:
        """SIGTERM without faults: there is no excuse for a job that is left behind."""
        if members := list(self.alive()):
            self.stop_worker(self._rng.choice(members))

    def stop_worker(self, sim_worker: SimWorker) -> None:
        """SIGTERM."""
        self._world.trace.add(sim_worker.sim_process.process, "is told to stop")
        sim_worker.sim_process.stopped_at = self._world.loop.time()
        within(sim_worker.sim_process.process).run(sim_worker.worker.stop)

    def _ended(self, sim_worker: SimWorker) -> None:
        world, sim_process, now = self._world, sim_worker.sim_process, self._world.loop.time()
        error = None if sim_worker.task.cancelled() else sim_worker.task.exception()
        world.trace.add(sim_process.process, f"ends: {error!r}")
        if sim_worker.is_gone:
            return
        if error is not None or sim_process.stopped_at is None:
            world.checker.violate(f"{sim_process.process} ended without being told to: {error!r}")
        else:
            self._check_drain(sim_worker, sim_process.stopped_at, now)
        self._leave(sim_worker)

    def _check_drain(self, sim_worker: SimWorker, stopped_at: float, now: float) -> None:
        sim_process, checker = sim_worker.sim_process, self._world.checker
        if sim_process.was_paused(stopped_at - RECOVERY_S, now) or sim_process.had_faults(stopped_at - RECOVERY_S, now):
            return
        for delivery in checker.held.values():
            # By both clocks: after a jump of the store's, a worker cannot know that a lease still holds there.
            holds = now < delivery.ends_at and checker.clock.now_ms() < delivery.expires_ms
            if delivery.sim_process is sim_process and delivery.refused_at is None and holds:
                checker.violate(f"{sim_process.process} ended and left {delivery} behind")
        if now > stopped_at + sim_worker.slot.grace_ms / 1000 + STOP_S:
            checker.violate(f"{sim_process.process} took {now - stopped_at:.1f} s to end")

    async def stop(self) -> None:
        """Stop all workers."""
        self.is_closing = True
        for sim_worker in self.members:
            if not sim_worker.is_gone and sim_worker.sim_process.stopped_at is None:
                self.stop_worker(sim_worker)
        for _ in range(100):
            if not self.is_working:
                return
            await asyncio.sleep(1)
        self._world.checker.violate("a worker did not end")
