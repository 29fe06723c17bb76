"""The workers of a world: real workers in simulated processes, each replaced when it is gone."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.model.names import Queue
from headrace.worker.config import WorkerConfig
from headrace.worker.worker import Worker
from tests.simulation.handlers import make_handlers
from tests.simulation.history import Life
from tests.simulation.loop import within
from tests.simulation.rules import RECOVERY_S

if TYPE_CHECKING:
    from tests.simulation.world import World

IDLE_S = 5.0
"""A worker with nothing to do for so long has heard of everything that is due."""
STOP_S = 8.0
"""What a worker may take beyond its grace: for handlers that do not end, and for telling the store."""


class Post(Struct):
    """A place in the crew, with the settings of whoever fills it."""

    name: str
    queues: list[Queue]
    shares: dict[str | Queue, int] | None
    capacity: int
    heavy: int
    lease_ms: int
    heartbeat_ms: int | None
    grace_ms: int
    filled: int = 0


class Mate:
    """A worker in its process."""

    def __init__(self, post: Post, life: Life, worker: Worker, task: "asyncio.Task[None]") -> None:
        self.post = post
        self.life = life
        self.worker = worker
        self.task = task
        self.is_gone = False

    def is_idle(self, now: float) -> bool:
        """Whether it has had nothing to do for a while."""
        return not self.life.running and now > self.life.busy_at + IDLE_S


class Crew:
    """One to three workers; the first one serves all queues."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._chance = Random(world.chance.getrandbits(64))
        self._deaths = [queue for queue in world.queues if self._chance.random() < 0.2]
        self._posts = [self._post(number) for number in range(self._chance.choice((1, 2, 2, 3)))]
        self.mates: list[Mate] = []
        self.is_closing = False
        self._coming = 0

    def _post(self, number: int) -> Post:
        chance, queues = self._chance, self._world.queues
        mine = queues if number == 0 or chance.random() < 0.5 else [chance.choice(queues)]
        capacity = chance.choice((1, 2, 3, 4, 8, 20))
        lease_ms = self._world.lease_ms
        return Post(
            f"worker-{number}",
            mine,
            {queue: chance.randrange(1, 4) for queue in mine} if chance.random() < 0.3 else None,
            capacity,
            min(capacity, 3),
            lease_ms,
            chance.choice((None, None, lease_ms // 2, lease_ms // 4)),
            chance.choice((0, 500, 5_000)),
        )

    def start(self) -> None:
        """Fill all places."""
        for post in self._posts:
            self._fill(post)

    def _fill(self, post: Post) -> None:
        post.filled += 1
        world, chance = self._world, Random(self._chance.getrandbits(64))
        heartbeat_ms = post.heartbeat_ms or post.lease_ms // 3
        name = f"{post.name}.{post.filled}"
        life, link = world.life(name, capacity=post.capacity, heartbeat_s=heartbeat_ms / 1000)
        handlers = make_handlers(world.checker, life.process, post.queues, post.heavy, self._deaths)
        config = WorkerConfig(
            queues=post.shares or post.queues,
            # Half of the crew comes back under its old name, as it does in a deployment with fixed names.
            name=post.name if self._chance.random() < 0.5 else name,
            capacity=post.capacity,
            lease=post.lease_ms / 1000,
            heartbeat=None if post.heartbeat_ms is None else post.heartbeat_ms / 1000,
            grace=post.grace_ms / 1000,
            poll=self._chance.choice((10, 30)),
            repair=self._chance.choice((10, 60, 300)),
        )
        worker = Worker(link, handlers, config, rng=chance, random_bytes=chance.randbytes)
        mate = Mate(post, life, worker, world.loop.spawn(life.process, worker.run()))
        mate.task.add_done_callback(lambda _: self._ended(mate), context=within(None))
        self.mates.append(mate)
        world.trace.add(name, "is there")

    def alive(self) -> Iterator[Mate]:
        """Those who are neither gone nor going nor paused."""
        for mate in self.mates:
            if not mate.is_gone and mate.life.stopped_at is None and not mate.life.process.is_paused:
                yield mate

    @property
    def is_there(self) -> bool:
        """Whether somebody works, or will."""
        return self._coming > 0 or not all(mate.is_gone for mate in self.mates)

    def crash(self, mate: Mate) -> None:
        """SIGKILL, and somebody else takes the place after a while."""
        self._world.trace.add(mate.life.process, "is killed")
        self._leave(mate)

    def _leave(self, mate: Mate) -> None:
        world = self._world
        mate.is_gone = True
        world.loop.crash(mate.life.process)
        world.checker.crashed(mate.life)
        if not self.is_closing:
            delay = self._chance.random() * self._chance.choice((0.5, 5.0, 2 * mate.post.lease_ms / 1000))
            self._coming += 1
            world.loop.call_later(delay, self._replace, mate.post, context=within(None))

    def _replace(self, post: Post) -> None:
        self._coming -= 1
        if not self.is_closing:
            self._fill(post)

    def ask_somebody_to_stop(self) -> None:
        """SIGTERM in calm weather: then there is no excuse for what is left behind."""
        if mates := list(self.alive()):
            self.ask_to_stop(self._chance.choice(mates))

    def ask_to_stop(self, mate: Mate) -> None:
        """SIGTERM."""
        self._world.trace.add(mate.life.process, "is told to stop")
        mate.life.stopped_at = self._world.loop.time()
        within(mate.life.process).run(mate.worker.stop)

    def _ended(self, mate: Mate) -> None:
        world, life, now = self._world, mate.life, self._world.loop.time()
        error = None if mate.task.cancelled() else mate.task.exception()
        world.trace.add(life.process, f"ends: {error!r}")
        if mate.is_gone:
            return
        if error is not None or life.stopped_at is None:
            world.checker.violate(f"{life.process} ended without being told to: {error!r}")
        else:
            self._check_drain(mate, life.stopped_at, now)
        self._leave(mate)

    def _check_drain(self, mate: Mate, stopped_at: float, now: float) -> None:
        life, checker = mate.life, self._world.checker
        if life.was_paused(stopped_at - RECOVERY_S, now) or life.had_trouble(stopped_at - RECOVERY_S, now):
            return
        for delivery in checker.held.values():
            # By both clocks: after a jump of the store's, a worker cannot know that a lease still holds there.
            holds = now < delivery.ends_at and checker.clock.now_ms() < delivery.expires_ms
            if delivery.life is life and delivery.refused_at is None and holds:
                checker.violate(f"{life.process} ended and left {delivery} behind")
        if now > stopped_at + mate.post.grace_ms / 1000 + STOP_S:
            checker.violate(f"{life.process} took {now - stopped_at:.1f} s to end")

    async def stop(self) -> None:
        """Let everybody go home."""
        self.is_closing = True
        for mate in self.mates:
            if not mate.is_gone and mate.life.stopped_at is None:
                self.ask_to_stop(mate)
        for _ in range(100):
            if not self.is_there:
                return
            await asyncio.sleep(1)
        self._world.checker.violate("a worker did not end")
