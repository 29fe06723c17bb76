"""Batches: how many jobs go into one call, and what became of each of them, whatever became of the call."""

import asyncio
import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import cast

from headrace.client.eager import start_task
from headrace.model.errors import HeadraceError, OutcomeUnknown, Refused
from headrace.model.job import Job
from headrace.model.limits import BATCH_MAX, ENQUEUE_BYTES_MAX, ENQUEUES_IN_FLIGHT_MAX
from headrace.model.results import Enqueued
from headrace.stores.contract.jobs import Jobs, NowaitJobs

EnqueueOutcome = Enqueued | HeadraceError
"""What became of one job: the store's answer, or the error that its sender is to see."""


def batches(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """The jobs in order, in parts that one call takes."""
    batch: list[Job] = []
    size = 0
    for job in jobs:
        if type(job) is not Job:
            check_job(job)
        size += len(job.payload)
        if batch and (len(batch) == BATCH_MAX or size > ENQUEUE_BYTES_MAX):
            yield batch
            batch, size = [], len(job.payload)
        batch.append(job)
    if batch:
        yield batch


def check_job(job: object) -> None:
    """Refuse what is no job before it is among others, whom it would harm."""
    if type(job) is not Job:
        raise Refused(
            "bad_job", f"only a Job can be sent; found {type(job).__name__}; make one with the client's job()"
        )


async def enqueue_batch(store: Jobs, jobs: Sequence[Job]) -> list[EnqueueOutcome]:
    """Enqueue jobs in one call and say what became of each, in order; raises nothing that the store says."""
    try:
        return list(await store.enqueue(jobs))
    except Refused as refused:
        if len(jobs) == 1:
            return [refused]
        # The call was refused as a whole and changed nothing: each by itself, so that one does not harm the others.
        return [truth for job in jobs for truth in await enqueue_batch(store, [job])]
    except OutcomeUnknown as lost:
        return sorted_out(lost, jobs)
    except HeadraceError as error:
        return [copy_error(error) for _ in jobs]


def copy_error(error: HeadraceError) -> HeadraceError:
    """A copy for one of several callers: a shared one would collect the tracebacks of all of them."""
    mine = copy.copy(error)
    mine.__cause__ = error.__cause__ or error
    return mine


def sorted_out(lost: OutcomeUnknown, jobs: Sequence[Job]) -> list[EnqueueOutcome]:
    """What became of each job of a call whose answer got lost, in order."""
    answers: dict[str, deque[Enqueued]] = {}
    for answer in lost.known:
        if isinstance(answer, Enqueued):
            answers.setdefault(answer.id, deque()).append(answer)
    unknown = set(lost.unknown)
    truths: list[EnqueueOutcome] = []
    for job in jobs:
        # An id that was sent twice is unknown when one of the two is: nobody can say which.
        if job.id in unknown or not answers.get(job.id):
            mine = OutcomeUnknown(str(lost), unknown=[job.id])
            mine.__cause__ = lost
            truths.append(mine)
        else:
            truths.append(answers[job.id].popleft())
    return truths


EARLY = 25
"""So many senders leave before the turn is over where nothing is under way, so that the store works while the others
make their jobs: 1.26 times as many jobs a second with 50 tasks, for 1.15 times the processor time."""

_Sender = tuple[Job, "asyncio.Future[Enqueued]"]


class Coalescer:
    """Collects what is sent within one turn of the event loop; every sender gets its own answer or error.

    A task that is cancelled before the turn is over takes its job along; after that the job is on its way. Where the
    store can write at once, a lone sender does not wait for the end of the turn: its job is on its way when it waits.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._nowait_jobs = cast("NowaitJobs", jobs) if hasattr(jobs, "enqueue_nowait") else None
        self._senders: list[_Sender] = []
        self._flights: set[asyncio.Task[None]] = set()
        self._posted = 0
        self._is_shared = False
        """Whether the last call met others: then senders come together, and the first waits for the rest."""

    async def send(self, job: Job) -> Enqueued:
        """Send one job along with those of its neighbours; what the store says of it."""
        check_job(job)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Enqueued] = loop.create_future()
        self._senders.append((job, answer))
        count = len(self._senders)
        if count == (EARLY if self._is_shared else 1) and self._nowait_jobs is not None and not self._is_aloft:
            self._leave()
        elif count == 1:
            loop.call_soon(self._leave)
        return await answer

    @property
    def _is_aloft(self) -> bool:
        return self._posted > 0 or bool(self._flights)

    def _leave(self) -> None:
        senders = [sender for sender in self._senders if not sender[1].done()]
        self._senders = []
        if senders:
            self._is_shared = len(senders) > 1 or self._is_aloft
            try:
                if self._nowait_jobs is None or not self._is_posted(senders, self._nowait_jobs):
                    self._start(senders)
            except Exception as error:  # noqa: BLE001 - a fault of the store's belongs to those who asked
                for _, answer in senders:
                    _fail(answer, error)

    def _is_posted(self, senders: list[_Sender], nowait_jobs: NowaitJobs) -> bool:
        # One call at most: what was sent first is first in its queue, also where a call has to be made again.
        batch, *more = [[senders[0][0]]] if len(senders) == 1 else batches(job for job, _ in senders)
        if more or not nowait_jobs.enqueue_nowait(batch, partial(self._take, senders)):
            return False
        self._posted += 1
        return True

    def _take(self, senders: list[_Sender], found: list[Enqueued] | Exception | None) -> None:
        self._posted -= 1
        if found is None:
            self._start(senders)
        elif isinstance(found, list):
            for (_, answer), truth in zip(senders, found, strict=True):
                _tell(answer, truth)
        elif isinstance(found, OutcomeUnknown):
            for (_, answer), lost in zip(senders, sorted_out(found, [job for job, _ in senders]), strict=True):
                _tell(answer, lost)
        else:
            for _, answer in senders:
                _fail(answer, found)

    def _start(self, senders: list[_Sender]) -> None:
        flight = start_task(self._fly(senders), asyncio.get_running_loop())
        if not flight.done():
            self._flights.add(flight)  # the loop itself holds its tasks only weakly
            flight.add_done_callback(self._flights.discard)

    async def _fly(self, senders: list[_Sender]) -> None:
        left = iter(senders)
        answers = [answer for _, answer in senders]
        try:
            # One after the other: what was sent first is first in its queue.
            for batch in batches(job for job, _ in senders):
                for truth in await enqueue_batch(self._jobs, batch):
                    _tell(next(left)[1], truth)
        except Exception as error:  # noqa: BLE001 - a fault of the store's belongs to those who asked
            for answer in answers:
                _fail(answer, error)
        finally:
            for answer in answers:
                answer.cancel()  # nothing where all have been told; else the loop is ending


def _tell(answer: "asyncio.Future[Enqueued]", truth: EnqueueOutcome) -> None:
    if answer.done():
        return  # its sender was cancelled
    if isinstance(truth, HeadraceError):
        answer.set_exception(truth)
    else:
        answer.set_result(truth)


def _fail(answer: "asyncio.Future[Enqueued]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


Sent = list[tuple[Job, EnqueueOutcome]]
"""Every job with what became of it, in the order given."""


async def send_many(store: Jobs, jobs: Iterable[Job], progress: Callable[[int], None] | None) -> tuple[Sent, bool]:
    """Send jobs until all are sent or a call fails; True when it was all of them.

    Two calls with the same id are never under way at once, so the later one of two jobs with the same id wins.
    """
    flights: dict[asyncio.Task[list[EnqueueOutcome]], list[Job]] = {}
    landed: list[tuple[list[Job], asyncio.Task[list[EnqueueOutcome]]]] = []
    aloft: set[str] = set()
    told = 0

    async def land(flights_max: int) -> bool:
        """Wait until so few are under way; whether all that landed were answered."""
        nonlocal told
        fine = True
        while len(flights) > flights_max:
            done, _ = await asyncio.wait(flights, return_when=asyncio.FIRST_COMPLETED)
            for flight in done:
                batch = flights.pop(flight)
                aloft.difference_update(job.id for job in batch)
                truths = flight.result()
                told += len(batch)
                fine = fine and not any(is_lost(truth) for truth in truths)
                if progress is not None:
                    progress(told)
        return fine

    complete = True
    try:
        for batch in batches(jobs):
            ids = {job.id for job in batch}
            complete = await land(ENQUEUES_IN_FLIGHT_MAX - 1 if aloft.isdisjoint(ids) else 0)
            if not complete:
                break
            flight = asyncio.create_task(enqueue_batch(store, batch))
            flights[flight] = batch
            landed.append((batch, flight))
            aloft |= ids
        complete = await land(0) and complete
    finally:
        for flight in flights:
            flight.cancel()
    return [pair for batch, flight in landed for pair in zip(batch, flight.result(), strict=True)], complete


def is_lost(truth: EnqueueOutcome) -> bool:
    """Whether the store gave no answer, not even a refusal."""
    return isinstance(truth, HeadraceError) and not isinstance(truth, Refused)


def why_lost(sent: Sent) -> HeadraceError:
    """The first error among jobs of which at least one got no answer."""
    return next(truth for _, truth in sent if isinstance(truth, HeadraceError) and is_lost(truth))


def unanswered(sent: Sent, known: list[object]) -> HeadraceError:
    """The error for a caller whose jobs were not all answered; `known` goes with it."""
    cause = why_lost(sent)
    if not known and not any(isinstance(truth, OutcomeUnknown) for _, truth in sent):
        return cause  # nothing was changed at all
    lost = [job.id for job, truth in sent if is_lost(truth)]
    error = OutcomeUnknown(
        f"{len(known):,} jobs were answered and {len(lost):,} were not, then sending stopped: {cause}",
        known=known,
        unknown=lost,
    )
    error.__cause__ = cause
    return error
