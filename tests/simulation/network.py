"""The simulated network between a process and the store: requests and replies are late, lost or doubled."""

from collections import Counter
from random import Random
from typing import Any, Protocol

from msgspec import Struct

from headrace.model.clock import Clock
from headrace.stores.memory.store import MemoryStore
from tests.simulation.loop import Process, VirtualLoop, within

FIRST_MS = 1_800_000_000_000
"""The store's clock at the start of a simulation."""


class SkewedClock(Clock):
    """Virtual time plus an error that can change."""

    def __init__(self, loop: VirtualLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return FIRST_MS + int(self._loop.time() * 1000) + self.skew_ms


class FaultRates(Struct):
    """The probability of each fault of a call."""

    drop_request: float = 0.0
    """Not sent: `StoreUnavailable`."""
    lose_request: float = 0.0
    """Sent and never applied, which the sender cannot know: `OutcomeUnknown`."""
    lose_reply: float = 0.0
    """Applied, which the sender cannot know: `OutcomeUnknown`."""
    lose_part: float = 0.0
    """Of a call over several shards, some parts lose the request, some the reply, and some are answered."""
    double: float = 0.0
    """Applied twice."""
    slow: float = 0.0
    """Late by up to `slow_s`, in either direction."""
    slow_s: float = 1.0
    latency_s: float = 0.002


NO_FAULTS = FaultRates()


class Watcher(Protocol):
    """Observes every call: when it is sent, applied and answered."""

    def sent(self, verb: str, arguments: Any) -> None:
        """A process sends a call."""

    def applied(self, sender: Process, verb: str, arguments: Any, answer: Any, sent_at: float) -> None:
        """The store has applied a call that was sent at `sent_at`."""

    def answered(self, sender: Process, verb: str, arguments: Any, answer: Any, sent_at: float) -> None:
        """The sender gets an answer or an error."""


class Server:
    """The store, its clock, and the numbers of operations and faults."""

    def __init__(self, loop: VirtualLoop, watcher: Watcher) -> None:
        self.loop = loop
        self.clock = SkewedClock(loop)
        self.store = MemoryStore(self.clock)
        self.watcher = watcher
        self.operations = 0
        self.faults: Counter[str] = Counter()
        self.outside = within(None)


class Route:
    """The connection of one process to the server."""

    def __init__(self, server: Server, process: Process, rng: Random, rates: FaultRates) -> None:
        self.server = server
        self.process = process
        self.rng = rng
        self.rates = rates
        self.is_cut = False
        """A partition: nothing gets through in either direction."""
        self.is_closed = False
        self.fault_times: list[float] = []
        """The instants of faults."""

    def record_fault(self, kind: str) -> None:
        """Count a fault."""
        self.server.faults[kind] += 1
        self.fault_times.append(self.server.loop.time())

    def cut(self) -> None:
        """A partition begins."""
        self.record_fault("partition")
        self.is_cut = True

    def join(self) -> None:
        """A partition ends."""
        if self.is_cut:
            self.is_cut = False
            self.fault_times.append(self.server.loop.time())

    def latency(self) -> float:
        """The latency of the next message."""
        rates, rng = self.rates, self.rng
        if rates.slow and rng.random() < rates.slow:
            self.record_fault("slow")
            return rng.random() * rates.slow_s
        return rates.latency_s * (0.1 + rng.random())

    def fate(self) -> str:
        """The fate of the next call."""
        if self.is_cut:
            return "drop_request" if self.rng.random() < 0.5 else "lose_request"
        rates, roll = self.rates, self.rng.random()
        for fate in FATES:
            roll -= getattr(rates, fate)
            if roll < 0:
                return fate
        return "well"


FATES = ("drop_request", "lose_request", "lose_reply", "lose_part", "double")
