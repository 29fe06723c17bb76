"""The settler: keeps settlements until the store has answered them, and repeats lost ones."""

from collections import deque
from collections.abc import Callable, Sequence

from headrace.model.errors import HeadraceError, OutcomeUnknown, StoreUnavailable
from headrace.model.limits import BATCH_MAX
from headrace.model.outcome import Outcome
from headrace.model.results import LEASE_REFUSALS, Settled
from headrace.worker.events import ActiveDelivery, AssumedSettled, EventEmitter, JobsFinished, LeaseLost


class Settler:
    """Settlements are sent in batches, and their leases extended until they are answered: no job runs twice because of
    an outage of the store. A refused settlement becomes an event."""

    def __init__(self, forget: Callable[[Sequence[ActiveDelivery]], None], events: EventEmitter) -> None:
        self._forget = forget
        self._events = events
        self._finished: deque[ActiveDelivery] = deque()

    def __len__(self) -> int:
        return len(self._finished)

    def put(self, delivery: ActiveDelivery, outcome: Outcome, run_ms: int) -> None:
        """Queue the outcome of a handler; its lease is extended until this is settled."""
        delivery.settlement = delivery.claim.settle_own(outcome, run_ms)
        self._finished.append(delivery)

    def take(self) -> list[ActiveDelivery]:
        """The deliveries to settle with the next call."""
        batch: list[ActiveDelivery] = []
        while self._finished and len(batch) < BATCH_MAX:
            delivery = self._finished.popleft()
            if delivery.is_lost:
                self._drop(delivery, "its lease ended before it could be settled")
                continue
            delivery.is_settling = True
            batch.append(delivery)
        return batch

    def record_answers(self, deliveries: Sequence[ActiveDelivery], answers: Sequence[Settled]) -> None:
        """Take the answers of the store, one for each delivery."""
        self._forget(deliveries)
        for delivery, answer in zip(deliveries, answers, strict=True):
            if answer.status not in LEASE_REFUSALS:  # `answer.ok`, inlined: this runs for each job
                continue
            if delivery.is_uncertain and answer.status == "not_active":
                # The first settlement, whose answer was lost, was applied.
                self._events.emit(AssumedSettled(delivery))
            else:
                self._events.emit(LeaseLost(delivery.claim, f"its settlement was refused: {answer.status}"))
        self._events.emit(JobsFinished(deliveries, answers))

    def record_failure(self, deliveries: Sequence[ActiveDelivery], error: Exception) -> None:
        """The call failed: take the answers that are known, and send the other settlements again."""
        known = _known_answers(error)
        again: list[ActiveDelivery] = []
        settled: list[tuple[ActiveDelivery, Settled]] = []
        for delivery in deliveries:
            answer = known.pop(delivery.claim.lease.id, None)
            if answer is not None:
                settled.append((delivery, answer))
                continue
            delivery.is_settling = False
            delivery.is_uncertain = delivery.is_uncertain or not isinstance(error, StoreUnavailable)
            again.append(delivery)
        self._finished.extendleft(reversed(again))
        if settled:
            self.record_answers([delivery for delivery, _ in settled], [answer for _, answer in settled])

    def give_up(self, deliveries: Sequence[ActiveDelivery], error: HeadraceError) -> None:
        """Drop settlements that the store will never take: the leases end, and the jobs are claimed again."""
        for delivery in deliveries:
            self._drop(delivery, str(error))

    def _drop(self, delivery: ActiveDelivery, why: str) -> None:
        self._forget([delivery])
        self._events.emit(LeaseLost(delivery.claim, why))


def _known_answers(error: Exception) -> dict[str, Settled]:
    """The answers that arrived, by id. An id in two queues is left out: its answer could be of either."""
    if not isinstance(error, OutcomeUnknown):
        return {}
    answers = [answer for answer in error.known if isinstance(answer, Settled)]
    by_id = {answer.id: answer for answer in answers}
    if len(by_id) < len(answers):
        return {}
    return {id: answer for id, answer in by_id.items() if id not in error.unknown}
