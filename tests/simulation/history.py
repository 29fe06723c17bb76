"""What happened in a simulation: deliveries as the store made them, runs as handlers saw them."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Literal

from headrace.model.claim import Claim
from headrace.model.outcome import Outcome
from tests.simulation.loop import Process
from tests.simulation.network import Way

Key = tuple[str, str]
"""Queue and id."""
FinishedJob = Literal["ok", "raise", "retry", "fail", "release", "cancelled"]


class Life:
    """A process of the simulation, with what a judge has to know of it."""

    def __init__(self, process: Process, way: Way, *, capacity: int = 0, heartbeat_s: float = 0.0) -> None:
        self.process = process
        self.way = way
        self.capacity = capacity
        self.heartbeat_s = heartbeat_s
        self.pauses: list[tuple[float, float]] = []
        self.stopped_at: float | None = None
        """When it was told to stop."""
        self.ended_at: float | None = None
        self.over = asyncio.Event()
        """Set when a producer has done its work, or was killed."""
        self.running: list[Run] = []
        self.busy_at = way.server.loop.time()
        """When it last had something to do."""

    def was_paused(self, after: float, before: float) -> bool:
        """Whether it stood still at some moment between the two."""
        return any(start <= before and end >= after for start, end in self.pauses)

    def had_trouble(self, after: float, before: float) -> bool:
        """Whether its link failed at some moment between the two."""
        troubles = self.way.troubles
        place = bisect_left(troubles, after)
        return place < len(troubles) and troubles[place] <= before


class Delivery:
    """One claim of one job, as the store has it."""

    def __init__(self, key: Key, claim: Claim, life: Life, at: float, sent_at: float, lease_s: float) -> None:
        self.key = key
        self.claim = claim
        self.life = life
        self.lease_s = lease_s
        self.expires_ms = claim.lease.expires_at_ms
        """By the store's clock."""
        self.at = at
        self.sent_at = sent_at
        self.ends_at = at + lease_s
        """By true time: when the lease ends if the store's clock does not jump."""
        self.told_at: float | None = None
        """When its worker learned of it."""
        self.refused_at: float | None = None
        """When its worker was told that the lease is gone."""
        self.asked_at: float | None = None
        """When somebody asked it to stop."""
        self.asked_heard_at: float | None = None
        """When its worker heard of that."""
        self.believed_until: float | None = None
        """Until when its worker may rely on the lease, if that is certain."""
        self.outcome: Outcome | None = None
        """How it was settled, if it was."""
        self.flights = 0
        """Calls under way that settle it."""
        self.landed_at: float | None = None
        """When its worker heard of the last of them."""
        self.run: Run | None = None

    def __repr__(self) -> str:
        return f"{self.key[0]}/{self.key[1]} fence {self.claim.lease.fence} of {self.life.process}"


class Run:
    """A handler at work on a delivery."""

    def __init__(self, delivery: Delivery, weight: int, at: float) -> None:
        self.delivery = delivery
        self.weight = weight
        self.started_at = at
        self.cancelled_at: float | None = None
        """When its handler was first told to stop."""
        self.ended_at: float | None = None
        self.how: FinishedJob | None = None
        self.value: Any = None

    @property
    def stopped_at(self) -> float | None:
        """When it ended, or would have ended if it did as it was told."""
        return self.ended_at if self.cancelled_at is None else self.cancelled_at


class Trace:
    """Every step of a simulation in words; only kept when somebody wants to read it."""

    def __init__(self, now: Callable[[], float], is_on: bool) -> None:
        self._now = now
        self.is_on = is_on
        self.lines: list[str] = []

    def add(self, who: object, what: str) -> None:
        """Write a line."""
        if self.is_on:
            self.lines.append(f"{self._now():12.4f} {who}: {what}")
