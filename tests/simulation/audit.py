"""The audit after the drain: compares the journal with the store, and both with the answers to producers."""

from collections import Counter
from typing import Any

from headrace.model.event import Event
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from tests.simulation.checker import Checker
from tests.simulation.history import Key
from tests.simulation.loop import drive
from tests.simulation.rules import has_excuse
from tests.support.fold import Folded

OVER = frozenset({"done", "dead", "cancelled", "removed", "purged"})
CHARGED = {"retried": (1, 0), "stalled": (0, 1), "released": (0, 0)}
"""Attempts and stalls that each end of a delivery adds."""


class Acknowledgements:
    """What the store has acknowledged to producers."""

    def __init__(self) -> None:
        self.accepted: set[Key] = set()
        """Ids that were surely enqueued."""
        self.rejected: set[Key] = set()
        """Ids, sent only once, that surely were not enqueued."""
        self.keyed: set[Key] = set()
        """Ids from an idempotency key."""


def audit(checker: Checker, store: Store, queues: list[Queue], acknowledgements: Acknowledgements) -> None:
    """Check all promises that can only be checked at the end."""
    enqueued: Counter[Key] = Counter()
    for queue in queues:
        for each in (queue, queue.fail_queue):
            events = _events(checker, store, each)
            for event in events:
                if event.line.event == "enqueued":
                    enqueued[each.full_name, event.line.id or ""] += 1
            _check_deliveries(checker, each, events)
    for key in sorted(acknowledgements.accepted - enqueued.keys()):
        checker.violate(f"lost: the store said that it has {key}, and its journal has never heard of it")
    for key in sorted(acknowledgements.rejected & enqueued.keys()):
        checker.violate(f"{key} was enqueued although its sender was told that nothing was changed")
    for key in sorted(key for key in acknowledgements.keyed if enqueued[key] > 1):
        checker.violate(f"{key} was made of an idempotency key and enqueued {enqueued[key]} times")
    for delivery in checker.deliveries.values():
        is_removed = delivery.key in checker.removed
        if delivery.outcome is None and not has_excuse(delivery, is_removed, checker.jumps):
            checker.violate(f"{delivery} was not settled before its lease ended, for no reason")
        if delivery.run is not None and delivery.run.ended_at is None and not delivery.sim_process.process.is_crashed:
            checker.violate(f"the handler of {delivery} never ended")


def _events(checker: Checker, store: Store, queue: Queue) -> list[Event]:
    found: list[Event] = []
    for shard in queue.all_shards():
        folded = Folded()
        events = [event for entry in drive(store.journal.read(shard, 0, 2**62)) for event in entry.events(shard)]
        try:
            for event in events:
                folded.add(event)
            folded.check(drive(store.reads.snapshot(shard, now_ms=0)).rows)
        except AssertionError as contradiction:
            checker.violate(f"the journal of {shard} contradicts itself or the store: {contradiction}")
        for id in [*folded.live, *folded.blocked_jobs]:
            checker.violate(f"lost: {shard} still has {id} after the drain")
        found += events
    return found


def _check_deliveries(checker: Checker, queue: Queue, events: list[Event]) -> None:
    """Each delivery ends once with the right counts; a job that was asked to stop is not requeued."""
    asked: set[tuple[str, int]] = set()
    for event in events:
        line = event.line
        if line.event == "asked":
            asked.add((line.id or "", line.fence or 0))
        if line.event in CHARGED and line.fence is not None:
            if (line.id, line.fence) in asked:
                checker.violate(f"{line.id} was asked to stop in delivery {line.fence} and {line.event} all the same")
            _check_charge(checker, queue, line)


def _check_charge(checker: Checker, queue: Queue, line: Any) -> None:
    delivery = checker.deliveries.get(((queue.full_name, line.id), line.fence))
    if delivery is None:
        checker.violate(f"delivery {line.fence} of {line.id} is in the journal, and nobody was handed it")
        return
    record = delivery.claim.record
    attempts, stalls = CHARGED[line.event]
    found = (line.attempts, line.stalls)
    if None not in found and found != (record.attempts + attempts, record.stalls + stalls):
        checker.violate(f"{delivery} was {line.event} and charged from {record.attempts, record.stalls} to {found}")
