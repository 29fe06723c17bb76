"""The way between a simulated process and the one store: requests and replies that are late, lost or doubled."""

from collections import Counter
from random import Random
from typing import Any, Protocol

from msgspec import Struct

from headrace.model.clock import Clock
from headrace.stores.memory.store import MemoryStore
from tests.simulation.loop import Process, VirtualLoop, within

FIRST_MS = 1_800_000_000_000
"""What the store's clock shows when a simulation starts."""


class SkewedClock(Clock):
    """Virtual time plus an error that can change."""

    def __init__(self, loop: VirtualLoop, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return FIRST_MS + int(self._loop.time() * 1000) + self.skew_ms


class Weather(Struct):
    """How likely it is for a call to go wrong, and how."""

    drop_request: float = 0.0
    """Not sent: `StoreUnavailable`."""
    lose_request: float = 0.0
    """Sent, never applied, and the sender cannot know: `OutcomeUnknown`."""
    lose_reply: float = 0.0
    """Applied, and the sender cannot know: `OutcomeUnknown`."""
    lose_part: float = 0.0
    """Of a call over several shards, some are as with `lose_request`, some as with `lose_reply`, some answered."""
    double: float = 0.0
    """Applied twice."""
    slow: float = 0.0
    """Late by up to `slow_s`, on either way."""
    slow_s: float = 1.0
    latency_s: float = 0.002


CALM = Weather()


class Watcher(Protocol):
    """Who sees every call, as it is sent, as the store applies it and as its sender is answered."""

    def sent(self, verb: str, given: Any) -> None:
        """Somebody asks for it."""

    def applied(self, sender: Process, verb: str, given: Any, answer: Any, sent_at: float) -> None:
        """The store has done it; it was sent at that time."""

    def answered(self, sender: Process, verb: str, given: Any, answer: Any, sent_at: float) -> None:
        """The sender is told: an answer, or an error."""


class Server:
    """The one store, its clock, and the figures of all that reached it."""

    def __init__(self, loop: VirtualLoop, watcher: Watcher) -> None:
        self.loop = loop
        self.clock = SkewedClock(loop)
        self.store = MemoryStore(self.clock)
        self.watcher = watcher
        self.operations = 0
        self.faults: Counter[str] = Counter()
        self.outside = within(None)


class Way:
    """One process's way to the server."""

    def __init__(self, server: Server, process: Process, chance: Random, weather: Weather) -> None:
        self.server = server
        self.process = process
        self.chance = chance
        self.weather = weather
        self.is_cut = False
        """A partition: nothing gets through in either direction."""
        self.is_closed = False
        self.troubles: list[float] = []
        """When something went wrong here."""

    def trouble(self, kind: str) -> None:
        """Count a fault."""
        self.server.faults[kind] += 1
        self.troubles.append(self.server.loop.time())

    def cut(self) -> None:
        """A partition begins."""
        self.trouble("partition")
        self.is_cut = True

    def join(self) -> None:
        """A partition ends."""
        if self.is_cut:
            self.is_cut = False
            self.troubles.append(self.server.loop.time())

    def latency(self) -> float:
        """How long a message takes."""
        weather, chance = self.weather, self.chance
        if weather.slow and chance.random() < weather.slow:
            self.trouble("slow")
            return chance.random() * weather.slow_s
        return weather.latency_s * (0.1 + chance.random())

    def fate(self) -> str:
        """What shall become of the next call."""
        if self.is_cut:
            return "drop_request" if self.chance.random() < 0.5 else "lose_request"
        weather, roll = self.weather, self.chance.random()
        for fate in FATES:
            roll -= getattr(weather, fate)
            if roll < 0:
                return fate
        return "well"


FATES = ("drop_request", "lose_request", "lose_reply", "lose_part", "double")
