"""Capacity: how much a worker may have in hand at once, in units and by where handlers run."""

from collections.abc import Mapping

from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.names import Queue
from headrace.worker.handlers import Handler, Handlers, Mode


class Capacity:
    """Counts what is free. Work is taken when it is claimed and given back when its handler has really ended."""

    def __init__(self, units: int, threads: int, processes: int) -> None:
        self.units = units
        self.free = units
        self._lanes: dict[Mode, int] = {"async": units, "thread": threads, "process": processes}

    def take(self, handler: Handler | None) -> None:
        """A job for this handler is in hand; one that nobody works on takes a unit as well, for a moment."""
        self.free -= 1 if handler is None else handler.weight
        self._lanes["async" if handler is None else handler.mode] -= 1

    def give(self, handler: Handler | None) -> None:
        """It is over."""
        self.free += 1 if handler is None else handler.weight
        self._lanes["async" if handler is None else handler.mode] += 1

    def lane(self, mode: Mode) -> int:
        """How many handlers of this mode can be started now."""
        return self._lanes[mode]


class Group(Struct):
    """Queues whose jobs run in the same places, so that one claim can be sized for all of them."""

    queues: dict[Queue, int]
    """With their shares."""
    modes: frozenset[Mode]
    weight: int
    """Of the heaviest handler: whatever is claimed can be started at once."""
    may_have_work: bool = True

    def room(self, capacity: Capacity) -> int:
        """How many jobs can be started now, whichever they are."""
        return min([capacity.free // self.weight, *(capacity.lane(mode) for mode in self.modes)])

    def lacks_units(self, capacity: Capacity) -> bool:
        """Whether room is missing that the others take: they have to wait, or this group would for ever."""
        return capacity.free < self.weight and all(capacity.lane(mode) > 0 for mode in self.modes)


def groups_of(queues: dict[Queue, int], handlers: Handlers, capacity: Capacity, is_weighted: bool) -> list[Group]:
    """The queues by the places in which their handlers run; without shares only neighbours are together, since the
    order given must hold."""
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
    """Says which queue goes first. Without shares it is always the order given; with shares each queue goes first as
    often as its share says, spread evenly, and the others follow by what is owed to them."""

    def __init__(self, shares: Mapping[Queue, int], is_weighted: bool) -> None:
        self._shares = dict(shares)
        self._is_weighted = is_weighted
        self._owed = dict(shares)
        self._total = sum(shares.values())

    def look(self) -> list[Queue]:
        """The order of the next claim."""
        if not self._is_weighted:
            return list(self._shares)
        return sorted(self._owed, key=lambda queue: -self._owed[queue])

    def pass_on(self) -> None:
        """A claim was made in this order: the turn goes on, also when the first queue had nothing to give."""
        if self._is_weighted:
            self._owed[self.look()[0]] -= self._total
            for queue, share in self._shares.items():
                self._owed[queue] += share
