"""The history of a simulation: deliveries of the store, and runs of handlers."""

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Literal

from headrace.model.claim import Claim
from headrace.model.outcome import Outcome
from tests.simulation.loop import Process
from tests.simulation.network import Route

Key = tuple[str, str]
"""Queue and id."""
FinishedJob = Literal["ok", "raise", "retry", "fail", "release", "cancelled"]


class SimProcess:
    """A process of the simulation, with all that the checker needs to know of it."""

    def __init__(self, process: Process, route: Route, *, capacity: int = 0, heartbeat_s: float = 0.0) -> None:
        self.process = process
        self.route = route
        self.capacity = capacity
        self.heartbeat_s = heartbeat_s
        self.pauses: list[tuple[float, float]] = []
        self.stopped_at: float | None = None
        """When it was asked to stop."""
        self.ended_at: float | None = None
        self.over = asyncio.Event()
        """Set when a producer has finished, or was killed."""
        self.running: list[Run] = []
        self.busy_at = route.server.loop.time()
        """When it last ran a job."""

    def was_paused(self, after: float, before: float) -> bool:
        """Whether it was paused at some moment in between."""
        return any(start <= before and end >= after for start, end in self.pauses)

    def had_faults(self, after: float, before: float) -> bool:
        """Whether its connection had a fault in between."""
        fault_times = self.route.fault_times
        place = bisect_left(fault_times, after)
        return place < len(fault_times) and fault_times[place] <= before


class Delivery:
    """One claim of one job in the store."""

    def __init__(
        self, key: Key, claim: Claim, sim_process: SimProcess, at: float, sent_at: float, lease_s: float
    ) -> None:
        self.key = key
        self.claim = claim
        self.sim_process = sim_process
        self.lease_s = lease_s
        self.expires_ms = claim.lease.expires_at_ms
        """By the store's clock."""
        self.at = at
        self.sent_at = sent_at
        self.ends_at = at + lease_s
        """By true time: when the lease ends if the store's clock does not jump."""
        self.received_at: float | None = None
        """When its worker received it."""
        self.refused_at: float | None = None
        """When its worker learned that the lease is lost."""
        self.cancel_asked_at: float | None = None
        """When its cancellation was requested."""
        self.cancel_heard_at: float | None = None
        """When its worker learned of that."""
        self.believed_until: float | None = None
        """How long its worker may rely on the lease, if that is certain."""
        self.outcome: Outcome | None = None
        """The outcome with which it was settled."""
        self.pending_settlements = 0
        """Settlements under way."""
        self.settlement_answered_at: float | None = None
        """When the last of them was answered."""
        self.run: Run | None = None

    def __repr__(self) -> str:
        return f"{self.key[0]}/{self.key[1]} fence {self.claim.lease.fence} of {self.sim_process.process}"


class Run:
    """One run of a handler."""

    def __init__(self, delivery: Delivery, weight: int, at: float) -> None:
        self.delivery = delivery
        self.weight = weight
        self.started_at = at
        self.cancelled_at: float | None = None
        """When its handler was first cancelled."""
        self.ended_at: float | None = None
        self.how: FinishedJob | None = None
        self.value: Any = None

    @property
    def stopped_at(self) -> float | None:
        """When it ended or was first cancelled."""
        return self.ended_at if self.cancelled_at is None else self.cancelled_at


class Trace:
    """Every step of a simulation in words, if enabled."""

    def __init__(self, now: Callable[[], float], is_on: bool) -> None:
        self._now = now
        self.is_on = is_on
        self.lines: list[str] = []

    def add(self, who: object, what: str) -> None:
        """Write a line."""
        if self.is_on:
            self.lines.append(f"{self._now():12.4f} {who}: {what}")
