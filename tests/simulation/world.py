"""A simulated world: draws a scenario from a seed, lets it happen, heals everything, drains and audits."""

import asyncio
import gc
import logging
from collections import Counter
from random import Random

from msgspec import Struct

from headrace.client.client import Client
from headrace.model.names import Queue
from headrace.worker import fetch_loop
from tests.simulation.audit import Told, audit
from tests.simulation.checker import Checker
from tests.simulation.history import Life, Trace
from tests.simulation.link import Link
from tests.simulation.loop import Process, Stuck, VirtualLoop, drive
from tests.simulation.nemesis import Nemesis
from tests.simulation.network import CALM, Server, SkewedClock, Way, Weather
from tests.simulation.producer import Producer
from tests.simulation.rules import RECOVERY_S
from tests.simulation.workers import IDLE_S, Crew

OPERATIONS_MIN = 200
FAULTS_MIN = 5
DRAIN_S = 6 * 3_600.0
"""How long a healed world may take to finish its jobs."""
CALM_S = 50.0
"""When the last storm is forgotten: the longest poll, an outage, and a slow call."""
LEASES_MS = (1_000, 2_000, 5_000, 10_000, 30_000)


class Outcome(Struct):
    """What a seed has shown."""

    seed: int
    violations: list[str]
    operations: int
    seconds: float
    faults: Counter[str]
    jobs: int
    deliveries: int
    trace: list[str]


def simulate(seed: int, *, is_traced: bool = False) -> Outcome:
    """Live through one seed."""
    return World(seed, is_traced).live()


class World:
    """Everything of one seed. Each part draws from its own source of chance, so that they disturb each other less."""

    def __init__(self, seed: int, is_traced: bool) -> None:
        self.seed = seed
        self.chance = Random(seed)
        self.loop = VirtualLoop()
        self.trace = Trace(self.loop.time, is_traced)
        self.checker = Checker(self.loop, self.trace)
        self.server = Server(self.loop, self.checker)
        self.checker.clock = self.server.clock
        self.told = Told()
        self.ways: list[Way] = []
        self.producers: list[Life] = []
        self.storm = draw_weather(self.chance)
        self.weather = CALM
        self.lease_ms = self.chance.choice(LEASES_MS)
        self.queues = [Queue("mail"), Queue("report", shards=self.chance.choice((1, 2, 3)))]

    def live(self) -> Outcome:
        """From the first job to the audit."""
        # Workers in trouble have much to say; and what is garbage is collected between seeds, all at once.
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        gc.disable()
        # Every second world sends settlements beside its claims, however few they are.
        beside, fetch_loop.CONCURRENT_SETTLE_MIN = (
            fetch_loop.CONCURRENT_SETTLE_MIN,
            1 if self.seed % 2 else fetch_loop.CONCURRENT_SETTLE_MIN,
        )
        try:
            self.loop.run(self._story())
        except Stuck as stuck:
            self.checker.violate(str(stuck))
        finally:
            gc.enable()
            logging.disable(level)
            fetch_loop.CONCURRENT_SETTLE_MIN = beside
        checker = self.checker
        return Outcome(
            self.seed,
            checker.violations,
            self.server.operations,
            self.loop.time(),
            self.server.faults,
            len(checker.statuses),
            len(checker.deliveries),
            self.trace.lines,
        )

    def life(self, name: str, *, capacity: int = 0, heartbeat_s: float = 0.0) -> tuple[Life, Link]:
        """A new process with its link."""
        process = Process(name)
        way = Way(self.server, process, Random(self.chance.getrandbits(64)), self.weather)
        self.ways.append(way)
        life = self.checker.lives[process] = Life(process, way, capacity=capacity, heartbeat_s=heartbeat_s)
        return life, Link(way)

    async def _story(self) -> None:
        crew = Crew(self)
        nemesis = Nemesis(self, crew)
        crew.start()
        while not self._is_enough() and not self.checker.violations:
            await self._round(nemesis)
            await self._drain(crew)
        await crew.stop()
        for problem in [*self.loop.unhandled, *self.loop.unretrieved()]:
            self.checker.violate(f"nobody looked at: {problem}")
        audit(self.checker, self.server.store, self.queues, self.told)

    async def _round(self, nemesis: Nemesis) -> None:
        """Trouble for as long as producers produce, then peace."""
        self._turn(self.storm)
        producers = [self._producer() for _ in range(self.chance.choice((1, 1, 2)))]
        harm = self.loop.create_task(nemesis.run())
        for life, task in producers:
            await life.over.wait()
            if task.done() and (error := task.exception()) is not None:
                self.checker.violate(f"{life.process} raised {error!r}")
        harm.cancel()
        nemesis.heal()
        self._turn(CALM)

    def _turn(self, weather: Weather) -> None:
        self.trace.add("world", f"has {weather}")
        self.weather = weather
        for way in self.ways:
            way.weather = weather
            way.join()

    def _producer(self) -> "tuple[Life, asyncio.Task[None]]":
        actions = self.chance.randrange(3, 6) if len(self.producers) > 1 else self.chance.randrange(10, 16)
        name = f"p{len(self.producers) + 1}"
        life, link = self.life(name)
        chance = Random(self.chance.getrandbits(64))
        clock = SkewedClock(self.loop, chance.randrange(-3_600_000, 3_600_000))
        client = Client(link, clock=clock, entropy=chance.randbytes)
        producer = Producer(name, client, self.queues, chance, self.checker, self.told, self.lease_ms)
        self.producers.append(life)
        task = self.loop.spawn(life.process, producer.run(actions))
        task.add_done_callback(lambda _: life.over.set(), context=self.server.outside)
        return life, task

    def _is_enough(self) -> bool:
        return self.server.operations >= OPERATIONS_MIN and sum(self.server.faults.values()) >= FAULTS_MIN

    async def _drain(self, crew: Crew) -> None:
        calm_since = self.loop.time()
        deadline = calm_since + DRAIN_S
        is_stop_due = self.chance.random() < 0.5
        while self._left():
            if self.loop.time() > calm_since + CALM_S:
                self._check_idle(crew)
            if is_stop_due and self.loop.time() > calm_since + RECOVERY_S:
                is_stop_due = False
                crew.ask_somebody_to_stop()
            if self.loop.time() > deadline or not crew.is_there:
                self.checker.violate(f"the drain did not finish: {self._left()} jobs are left")
                return
            await asyncio.sleep(10)

    def _check_idle(self, crew: Crew) -> None:
        """In calm weather nothing that is due waits while somebody has nothing to do."""
        now, now_ms = self.loop.time(), self.server.clock.now_ms()
        for queue in self.queues:
            due_ms = drive(self.server.store.queues.counts(queue)).oldest_due_ms
            idle = [mate.life.process for mate in crew.alive() if queue in mate.post.queues and mate.is_idle(now)]
            if due_ms is not None and now_ms - due_ms > IDLE_S * 1000 and idle:
                self.checker.violate(
                    f"{queue.name} has been due for {now_ms - due_ms} ms and {idle} have nothing to do"
                )

    def _left(self) -> int:
        """How many jobs some queue still has; 0 when all are empty."""
        for queue in self.queues:
            for each in (queue, queue.fail_queue):
                counts = drive(self.server.store.queues.counts(each))
                if left := counts.waiting + counts.blocked + counts.active:
                    return left
        return 0


def draw_weather(chance: Random) -> Weather:
    """Each seed has some kinds of faults and not the others: rare meetings of two kinds are found sooner."""

    def rate(most: float) -> float:
        return chance.random() * most if chance.random() < 0.6 else 0.0

    return Weather(
        drop_request=rate(0.1),
        lose_request=rate(0.06),
        lose_reply=0.02 + rate(0.1),
        lose_part=rate(0.06),
        double=rate(0.1),
        slow=rate(0.1),
        slow_s=chance.choice((0.1, 1.0, 5.0)),
        latency_s=chance.choice((0.0005, 0.005, 0.05)),
    )
