"""Capacity: how many jobs a worker may hold at once, in units and by the mode of their handlers."""

from collections.abc import Mapping

from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.names import Queue
from headrace.worker.handlers import Handler, Handlers, Mode


class Capacity:
    """Counts free units and slots. A job takes them at its claim, and frees them when its handler has ended."""

    def __init__(self, units: int, threads: int, processes: int) -> None:
        self.units = units
        self.free = units
        self._slots: dict[Mode, int] = {"async": units, "thread": threads, "process": processes}

    def acquire(self, handler: Handler | None) -> None:
        """Take the units of a job; a job without a handler takes one unit for a moment."""
        self.free -= 1 if handler is None else handler.weight
        self._slots["async" if handler is None else handler.mode] -= 1

    def release(self, handler: Handler | None) -> None:
        """Free the units of a job."""
        self.free += 1 if handler is None else handler.weight
        self._slots["async" if handler is None else handler.mode] += 1

    def free_slots(self, mode: Mode) -> int:
        """How many handlers of this mode can start now."""
        return self._slots[mode]


class Group(Struct):
    """Queues with handlers of the same modes, so that one claim can be sized for all."""

    queues: dict[Queue, int]
    """The queues, with their shares."""
    modes: frozenset[Mode]
    weight: int
    """The weight of the heaviest handler: every claimed job can start at once."""
    may_have_work: bool = True

    def room(self, capacity: Capacity) -> int:
        """How many jobs of any kind can start now."""
        return min([capacity.free // self.weight, *(capacity.free_slots(mode) for mode in self.modes)])

    def lacks_units(self, capacity: Capacity) -> bool:
        """Whether only units are missing: lighter groups have to wait, or this one would starve."""
        return capacity.free < self.weight and all(capacity.free_slots(mode) > 0 for mode in self.modes)


def group_queues(queues: dict[Queue, int], handlers: Handlers, capacity: Capacity, is_weighted: bool) -> list[Group]:
    """Group queues by the modes of their handlers; without shares only neighbours, since the order of queues must be
    kept."""
    groups: list[Group] = []
    for queue, share in queues.items():
        found = handlers.of_queue(queue)
        modes: frozenset[Mode] = frozenset(handler.mode for handler in found) or frozenset({"async"})
        weight = max((handler.weight for handler in found), default=1)
        if weight > capacity.units:
            heavy = next(handler for handler in found if handler.weight == weight)
            raise BadConfig(
                f"a job of kind {heavy.kind!r} weighs {weight} units and the worker has {capacity.units};"
                " raise its capacity or make the handler lighter"
            )
        candidates = groups if is_weighted else groups[-1:]
        group = next((each for each in candidates if each.modes == modes), None)
        if group is None:
            group = Group({}, modes, 1)
            groups.append(group)
        group.queues[queue] = share
        group.weight = max(group.weight, weight)
    return groups


class QueueOrder:
    """The order in which queues are visited. Without shares it is fixed; with shares it is a smooth weighted round
    robin: each queue goes first as often as its share, evenly spread, and the others follow by their credit."""

    def __init__(self, shares: Mapping[Queue, int], is_weighted: bool) -> None:
        self._shares = dict(shares)
        self._is_weighted = is_weighted
        self._credit = dict(shares)
        self._total = sum(shares.values())

    def current(self) -> list[Queue]:
        """The order of queues in the next claim."""
        if not self._is_weighted:
            return list(self._shares)
        return sorted(self._credit, key=lambda queue: -self._credit[queue])

    def advance(self) -> None:
        """Move on after a claim, also when the first queue was empty."""
        if self._is_weighted:
            self._credit[self.current()[0]] -= self._total
            for queue, share in self._shares.items():
                self._credit[queue] += share
