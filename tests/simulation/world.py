"""A simulated world: draws a scenario from a seed, plays it with faults, stops the faults, drains and audits."""

import asyncio
import gc
import logging
from collections import Counter
from random import Random

from msgspec import Struct

from headrace.client.client import Client
from headrace.model.names import Queue
from headrace.worker import fetch_loop
from tests.simulation.audit import Acknowledgements, audit
from tests.simulation.checker import Checker
from tests.simulation.history import SimProcess, Trace
from tests.simulation.link import Link
from tests.simulation.loop import Process, Stuck, VirtualLoop, drive
from tests.simulation.nemesis import Nemesis
from tests.simulation.network import NO_FAULTS, FaultRates, Route, Server, SkewedClock
from tests.simulation.producer import Producer
from tests.simulation.rules import RECOVERY_S
from tests.simulation.workers import IDLE_S, Workers

OPERATIONS_MIN = 200
FAULTS_MIN = 5
DRAIN_S = 6 * 3_600.0
"""How long a world without faults may take to finish its jobs."""
SETTLE_DOWN_S = 50.0
"""When the last faults have no effect any more: the longest poll, an outage, and a slow call."""
LEASES_MS = (1_000, 2_000, 5_000, 10_000, 30_000)


class SeedReport(Struct):
    """The result of a seed."""

    seed: int
    violations: list[str]
    operations: int
    seconds: float
    faults: Counter[str]
    jobs: int
    deliveries: int
    trace: list[str]


def simulate(seed: int, *, is_traced: bool = False) -> SeedReport:
    """Simulate one seed."""
    return World(seed, is_traced).play()


class World:
    """All parts of one seed. Each has its own random generator, so that a change of one disturbs the others less."""

    def __init__(self, seed: int, is_traced: bool) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.loop = VirtualLoop()
        self.trace = Trace(self.loop.time, is_traced)
        self.checker = Checker(self.loop, self.trace)
        self.server = Server(self.loop, self.checker)
        self.checker.clock = self.server.clock
        self.acknowledgements = Acknowledgements()
        self.routes: list[Route] = []
        self.producers: list[SimProcess] = []
        self.faulty_rates = draw_fault_rates(self.rng)
        self.rates = NO_FAULTS
        self.lease_ms = self.rng.choice(LEASES_MS)
        self.queues = [Queue("mail"), Queue("report", shards=self.rng.choice((1, 2, 3)))]

    def play(self) -> SeedReport:
        """From the first job to the audit."""
        # No logs: failing workers write many. Garbage is collected between seeds, all at once.
        level = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        gc.disable()
        # Every second world sends settlements concurrently with claims, however few they are.
        beside, fetch_loop.CONCURRENT_SETTLE_MIN = (
            fetch_loop.CONCURRENT_SETTLE_MIN,
            1 if self.seed % 2 else fetch_loop.CONCURRENT_SETTLE_MIN,
        )
        try:
            self.loop.run(self._play())
        except Stuck as stuck:
            self.checker.violate(str(stuck))
        finally:
            gc.enable()
            logging.disable(level)
            fetch_loop.CONCURRENT_SETTLE_MIN = beside
        checker = self.checker
        return SeedReport(
            self.seed,
            checker.violations,
            self.server.operations,
            self.loop.time(),
            self.server.faults,
            len(checker.statuses),
            len(checker.deliveries),
            self.trace.lines,
        )

    def start_process(self, name: str, *, capacity: int = 0, heartbeat_s: float = 0.0) -> tuple[SimProcess, Link]:
        """A new process with its connection."""
        process = Process(name)
        route = Route(self.server, process, Random(self.rng.getrandbits(64)), self.rates)
        self.routes.append(route)
        sim_process = self.checker.sim_processes[process] = SimProcess(
            process, route, capacity=capacity, heartbeat_s=heartbeat_s
        )
        return sim_process, Link(route)

    async def _play(self) -> None:
        workers = Workers(self)
        nemesis = Nemesis(self, workers)
        workers.start()
        while not self._is_enough() and not self.checker.violations:
            await self._round(nemesis)
            await self._drain(workers)
        await workers.stop()
        for problem in [*self.loop.unhandled, *self.loop.unretrieved()]:
            self.checker.violate(f"never retrieved: {problem}")
        audit(self.checker, self.server.store, self.queues, self.acknowledgements)

    async def _round(self, nemesis: Nemesis) -> None:
        """Faults for as long as producers run, then none."""
        self._turn(self.faulty_rates)
        producers = [self._producer() for _ in range(self.rng.choice((1, 1, 2)))]
        harm = self.loop.create_task(nemesis.run())
        for sim_process, task in producers:
            await sim_process.over.wait()
            if task.done() and (error := task.exception()) is not None:
                self.checker.violate(f"{sim_process.process} raised {error!r}")
        harm.cancel()
        nemesis.stop_faults()
        self._turn(NO_FAULTS)

    def _turn(self, rates: FaultRates) -> None:
        self.trace.add("world", f"has {rates}")
        self.rates = rates
        for route in self.routes:
            route.rates = rates
            route.join()

    def _producer(self) -> "tuple[SimProcess, asyncio.Task[None]]":
        actions = self.rng.randrange(3, 6) if len(self.producers) > 1 else self.rng.randrange(10, 16)
        name = f"p{len(self.producers) + 1}"
        sim_process, link = self.start_process(name)
        rng = Random(self.rng.getrandbits(64))
        clock = SkewedClock(self.loop, rng.randrange(-3_600_000, 3_600_000))
        client = Client(link, clock=clock, entropy=rng.randbytes)
        producer = Producer(name, client, self.queues, rng, self.checker, self.acknowledgements, self.lease_ms)
        self.producers.append(sim_process)
        task = self.loop.spawn(sim_process.process, producer.run(actions))
        task.add_done_callback(lambda _: sim_process.over.set(), context=self.server.outside)
        return sim_process, task

    def _is_enough(self) -> bool:
        return self.server.operations >= OPERATIONS_MIN and sum(self.server.faults.values()) >= FAULTS_MIN

    async def _drain(self, workers: Workers) -> None:
        calm_since = self.loop.time()
        deadline = calm_since + DRAIN_S
        is_stop_due = self.rng.random() < 0.5
        while self._left():
            if self.loop.time() > calm_since + SETTLE_DOWN_S:
                self._check_idle(workers)
            if is_stop_due and self.loop.time() > calm_since + RECOVERY_S:
                is_stop_due = False
                workers.stop_any()
            if self.loop.time() > deadline or not workers.is_working:
                self.checker.violate(f"the drain did not finish: {self._left()} jobs are left")
                return
            await asyncio.sleep(10)

    def _check_idle(self, workers: Workers) -> None:
        """Without faults no due job waits while a worker is idle."""
        now, now_ms = self.loop.time(), self.server.clock.now_ms()
        for queue in self.queues:
            due_ms = drive(self.server.store.queues.counts(queue)).oldest_due_ms
            idle = [
                sim_worker.sim_process.process
                for sim_worker in workers.alive()
                if queue in sim_worker.slot.queues and sim_worker.is_idle(now)
            ]
            if due_ms is not None and now_ms - due_ms > IDLE_S * 1000 and idle:
                self.checker.violate(
                    f"{queue.name} has been due for {now_ms - due_ms} ms and {idle} have nothing to do"
                )

    def _left(self) -> int:
        """The number of jobs in the first queue that is not empty; 0 when all are empty."""
        for queue in self.queues:
            for each in (queue, queue.fail_queue):
                counts = drive(self.server.store.queues.counts(each))
                if left := counts.waiting + counts.blocked + counts.active:
                    return left
        return 0


def draw_fault_rates(rng: Random) -> FaultRates:
    """Each seed has only some kinds of faults, which finds rare combinations of two kinds sooner."""

    def rate(most: float) -> float:
        return rng.random() * most if rng.random() < 0.6 else 0.0

    return FaultRates(
        drop_request=rate(0.1),
        lose_request=rate(0.06),
        lose_reply=0.02 + rate(0.1),
        lose_part=rate(0.06),
        double=rate(0.1),
        slow=rate(0.1),
        slow_s=rng.choice((0.1, 1.0, 5.0)),
        latency_s=rng.choice((0.0005, 0.005, 0.05)),
    )
