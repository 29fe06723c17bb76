"""The settler: keeps what has ended until the store has answered, however often it must be sent."""

from collections import deque
from collections.abc import Callable, Sequence

from headrace.model.errors import HeadraceError, OutcomeUnknown, StoreUnavailable
from headrace.model.limits import BATCH_MAX
from headrace.model.outcome import Outcome
from headrace.model.results import LEASE_REFUSALS, Settled
from headrace.worker.events import AssumedSettled, JobsFinished, LeaseLost, WorkerEvents
from headrace.worker.job_run import JobRun


class Settler:
    """Settlements leave in batches; their leases are extended until the answer is there, so that an outage of the store
    makes no job run twice. What the store refuses is told, not swallowed."""

    def __init__(self, forget: Callable[[Sequence[JobRun]], None], notices: WorkerEvents) -> None:
        self._forget = forget
        self._notices = notices
        self._ended: deque[JobRun] = deque()

    def __len__(self) -> int:
        return len(self._ended)

    def put(self, run: JobRun, outcome: Outcome, run_ms: int) -> None:
        """A handler has ended; its lease goes on until this is settled."""
        run.settlement = run.claim.settle_own(outcome, run_ms)
        self._ended.append(run)

    def take(self) -> list[JobRun]:
        """What is to be settled with the next call."""
        taken: list[JobRun] = []
        while self._ended and len(taken) < BATCH_MAX:
            run = self._ended.popleft()
            if run.is_lost:
                self._drop(run, "its lease ended before it could be settled")
                continue
            run.is_settling = True
            taken.append(run)
        return taken

    def answered(self, runs: Sequence[JobRun], answers: Sequence[Settled]) -> None:
        """The store has said what became of each."""
        self._forget(runs)
        for run, answer in zip(runs, answers, strict=True):
            if answer.status not in LEASE_REFUSALS:  # as `answer.ok`, of which there is one a job
                continue
            if run.is_uncertain and answer.status == "not_active":
                # Sent before without an answer, and gone now: it was applied then.
                self._notices.tell(AssumedSettled(run))
            else:
                self._notices.tell(LeaseLost(run.claim, f"its settlement was refused: {answer.status}"))
        self._notices.tell(JobsFinished(runs, answers))

    def unanswered(self, runs: Sequence[JobRun], error: Exception) -> None:
        """The call failed: what it is known to have settled is over, the rest is sent again."""
        known = _known(error)
        again: list[JobRun] = []
        settled: list[tuple[JobRun, Settled]] = []
        for run in runs:
            answer = known.pop(run.claim.lease.id, None)
            if answer is not None:
                settled.append((run, answer))
                continue
            run.is_settling = False
            run.is_uncertain = run.is_uncertain or not isinstance(error, StoreUnavailable)
            again.append(run)
        self._ended.extendleft(reversed(again))
        if settled:
            self.answered([run for run, _ in settled], [answer for _, answer in settled])

    def refused(self, runs: Sequence[JobRun], error: HeadraceError) -> None:
        """The store will never take these: their leases run out, and the jobs come again."""
        for run in runs:
            self._drop(run, str(error))

    def _drop(self, run: JobRun, why: str) -> None:
        self._forget([run])
        self._notices.tell(LeaseLost(run.claim, why))


def _known(error: Exception) -> dict[str, Settled]:
    """The answers that arrived, by id; an id of two queues that was also lost once is not certain of either."""
    if not isinstance(error, OutcomeUnknown):
        return {}
    answers = [answer for answer in error.known if isinstance(answer, Settled)]
    by_id = {answer.id: answer for answer in answers}
    if len(by_id) < len(answers):
        return {}
    return {id: answer for id, answer in by_id.items() if id not in error.unknown}
