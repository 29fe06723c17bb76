"""The claimer: decides what to ask the store for, and never for more than can be started at once."""

from collections.abc import Callable, Sequence

from headrace.model.claim import ClaimRequest
from headrace.model.limits import BATCH_MAX
from headrace.model.names import Queue
from headrace.worker.capacity import Capacity, Group, QueueOrder

NONCE_BYTES = 12


class PendingClaim:
    """A claim that was sent and not answered yet: until it is, nothing else is asked for."""

    __slots__ = ("group", "hints", "is_uncertain", "last_sent_at", "request", "sent_at")

    def __init__(self, group: Group, request: ClaimRequest, sent_at: float, hints: int) -> None:
        self.group = group
        self.hints = hints
        self.request = request
        self.sent_at = sent_at
        """When the store may have seen it first: the leases of its answer are counted from here."""
        self.last_sent_at = sent_at
        """When it may have handed out jobs last: an empty claim is not remembered, so any sending may be the one."""
        self.is_uncertain = False
        """Whether the store may have seen it already, and its answer got lost."""


class Claimer:
    """Asks the group of the queue whose turn it is, else that of the next. A claim takes at most half of the capacity,
    so that one half is fetched and settled while the other half runs."""

    def __init__(
        self,
        groups: Sequence[Group],
        capacity: Capacity,
        *,
        worker: str,
        lease_ms: int,
        is_weighted: bool,
        entropy: Callable[[int], bytes],
    ) -> None:
        self._groups = list(groups)
        self._group_of = {queue: group for group in groups for queue in group.queues}
        self._order = QueueOrder(
            {queue: share for group in groups for queue, share in group.queues.items()}, is_weighted
        )
        self._capacity = capacity
        self._worker = worker
        self._lease_ms = lease_ms
        self._entropy = entropy
        self._asked: PendingClaim | None = None
        self._hints = 0
        self.is_stopping = False

    @property
    def is_unanswered(self) -> bool:
        """Whether a claim is still without its answer."""
        return self._asked is not None

    def ask(self, now: float) -> PendingClaim | None:
        """What to claim now, if anything. One whose answer got lost is asked for again under its own nonce: the store
        then hands out the same jobs, and none of them waits for its lease to run out."""
        asked = self._asked
        if asked is not None and not asked.is_uncertain:
            asked.sent_at = now
        elif asked is not None and asked.last_sent_at + self._lease_ms / 1000 <= now:
            self._asked = None  # whatever it got has run out
        if self._asked is None and not self.is_stopping:
            self._asked = self._next(now)
        if self._asked is not None:
            self._asked.last_sent_at = now
        return self._asked

    def unanswered(self, is_uncertain: bool) -> None:
        """The call failed; whether the store may have seen it."""
        if self._asked is not None and is_uncertain:
            self._asked.is_uncertain = True

    def _next(self, now: float) -> PendingClaim | None:
        order = self._order.look()
        for queue in order:
            group = self._group_of[queue]
            if not group.may_have_work:
                continue
            room = group.room(self._capacity)
            if room <= 0:
                if group.lacks_units(self._capacity):
                    return None  # the others would take what this one needs as soon as it is free
                continue
            self._order.pass_on()
            queues = [each for each in order if each in group.queues]
            return PendingClaim(group, self._request(queues, room), now, self._hints)
        return None

    def _request(self, queues: list[Queue], room: int) -> ClaimRequest:
        half = max(self._capacity.units // 2, 1)
        return ClaimRequest(
            queues=queues,
            worker=self._worker,
            nonce=self._entropy(NONCE_BYTES).hex(),
            limit=min(room, half, BATCH_MAX),
            lease_ms=self._lease_ms,
        )

    def answered(self, has_more: bool) -> None:
        """The answer is there; whether it says that more is waiting already."""
        if self._asked is not None:
            # A hint that came meanwhile may be about what the claim could not see yet.
            self._asked.group.may_have_work = has_more or self._asked.hints != self._hints
            self._asked = None

    def give_up(self) -> None:
        """The store refuses what is asked for: ask for nothing any more."""
        self.is_stopping = True
        self._asked = None

    def hint(self) -> None:
        """Any queue may have work."""
        self._hints += 1
        for group in self._groups:
            group.may_have_work = True

    @property
    def is_full(self) -> bool:
        """Whether nothing could be asked for now, wherever work is: what runs has to end first."""
        for group in self._groups:
            if group.room(self._capacity) > 0:
                return False
            if group.may_have_work and group.lacks_units(self._capacity):
                return True
        return True

    @property
    def is_certain_of_nothing(self) -> bool:
        """Whether no group is known or suspected to have work: time to wait for a signal."""
        return not any(group.may_have_work for group in self._groups)
