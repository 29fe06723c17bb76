"""The claimer: builds claims from queues in their order, for jobs that the capacity lets start at once."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from headrace.model.claim import ClaimRequest
from headrace.model.errors import BadConfig
from headrace.model.limits import BATCH_MAX
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


NONCE_BYTES = 12


class PendingClaim:
    """A claim in flight. No other claim is sent meanwhile."""

    __slots__ = ("group", "hints", "is_uncertain", "last_sent_at", "request", "sent_at")

    def __init__(self, group: Group, request: ClaimRequest, sent_at: float, hints: int) -> None:
        self.group = group
        self.hints = hints
        self.request = request
        self.sent_at = sent_at
        """The earliest instant at which the store may have received it: leases count from here."""
        self.last_sent_at = sent_at
        """When it was last sent: the store does not remember an empty claim, so any repetition may have got jobs."""
        self.is_uncertain = False
        """Whether the store may have received it, and the answer was lost."""


class Claimer:
    """Claims from the group of the first queue in order with free capacity. A claim takes at most half of the capacity,
    so that one half is fetched and settled while the other half runs."""

    def __init__(
        self,
        groups: Sequence[Group],
        capacity: Capacity,
        *,
        worker: str,
        lease_ms: int,
        is_weighted: bool,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._groups = list(groups)
        self._group_of = {queue: group for group in groups for queue in group.queues}
        self._order = QueueOrder(
            {queue: share for group in groups for queue, share in group.queues.items()}, is_weighted
        )
        self._capacity = capacity
        self._worker = worker
        self._lease_ms = lease_ms
        self._random_bytes = random_bytes
        self._pending: PendingClaim | None = None
        self._hints = 0
        self.is_stopping = False

    @property
    def has_pending(self) -> bool:
        """Whether a claim has no answer yet."""
        return self._pending is not None

    def next_claim(self, now: float) -> PendingClaim | None:
        """The next claim to send, if any. A claim whose answer was lost is repeated with its nonce: the store then
        answers with the same jobs, and none of them waits until its lease ends."""
        pending = self._pending
        if pending is not None and not pending.is_uncertain:
            pending.sent_at = now
        elif pending is not None and pending.last_sent_at + self._lease_ms / 1000 <= now:
            self._pending = None  # the leases of its jobs have ended
        if self._pending is None and not self.is_stopping:
            self._pending = self._build_claim(now)
        if self._pending is not None:
            self._pending.last_sent_at = now
        return self._pending

    def record_failure(self, is_uncertain: bool) -> None:
        """The call failed; `is_uncertain` if the store may have received it."""
        if self._pending is not None and is_uncertain:
            self._pending.is_uncertain = True

    def _build_claim(self, now: float) -> PendingClaim | None:
        order = self._order.current()
        for queue in order:
            group = self._group_of[queue]
            if not group.may_have_work:
                continue
            room = group.room(self._capacity)
            if room <= 0:
                if group.lacks_units(self._capacity):
                    return None  # other groups would take the units that this group waits for
                continue
            self._order.advance()
            queues = [each for each in order if each in group.queues]
            return PendingClaim(group, self._request(queues, room), now, self._hints)
        return None

    def _request(self, queues: list[Queue], room: int) -> ClaimRequest:
        half = max(self._capacity.units // 2, 1)
        return ClaimRequest(
            queues=queues,
            worker=self._worker,
            nonce=self._random_bytes(NONCE_BYTES).hex(),
            limit=min(room, half, BATCH_MAX),
            lease_ms=self._lease_ms,
        )

    def record_answer(self, has_more: bool) -> None:
        """The claim was answered; `has_more` if more jobs are due."""
        if self._pending is not None:
            # A hint that came during the claim may be about a job that the claim did not see.
            self._pending.group.may_have_work = has_more or self._pending.hints != self._hints
            self._pending = None

    def stop(self) -> None:
        """Claim nothing more: the store refuses the claim."""
        self.is_stopping = True
        self._pending = None

    def hint(self) -> None:
        """Note that any queue may have work."""
        self._hints += 1
        for group in self._groups:
            group.may_have_work = True

    @property
    def is_full(self) -> bool:
        """Whether no claim is possible before a running job ends."""
        for group in self._groups:
            if group.room(self._capacity) > 0:
                return False
            if group.may_have_work and group.lacks_units(self._capacity):
                return True
        return True

    @property
    def is_out_of_work(self) -> bool:
        """Whether no group may have work: time to wait for a signal."""
        return not any(group.may_have_work for group in self._groups)
