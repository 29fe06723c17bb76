"""Batches: how many jobs go into one call, and what became of each of them, whatever became of the call."""

import copy
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from headrace.model.errors import HeadraceError, OutcomeUnknown, Refused
from headrace.model.job import Job
from headrace.model.limits import BATCH_MAX, ENQUEUE_BYTES_MAX
from headrace.model.results import Enqueued
from headrace.stores.contract.jobs import Jobs

Truth = Enqueued | HeadraceError
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


async def take_in(store: Jobs, jobs: Sequence[Job]) -> list[Truth]:
    """Enqueue jobs in one call and say what became of each, in order; raises nothing that the store says."""
    try:
        return list(await store.enqueue(jobs))
    except Refused as refused:
        if len(jobs) == 1:
            return [refused]
        # The call was refused as a whole and changed nothing: each by itself, so that one does not harm the others.
        return [truth for job in jobs for truth in await take_in(store, [job])]
    except OutcomeUnknown as lost:
        return sorted_out(lost, jobs)
    except HeadraceError as error:
        return [own(error) for _ in jobs]


def own(error: HeadraceError) -> HeadraceError:
    """A copy for one of several callers: a shared one would collect the tracebacks of all of them."""
    mine = copy.copy(error)
    mine.__cause__ = error.__cause__ or error
    return mine


def sorted_out(lost: OutcomeUnknown, jobs: Sequence[Job]) -> list[Truth]:
    """What became of each job of a call whose answer got lost, in order."""
    answers: dict[str, deque[Enqueued]] = {}
    for answer in lost.known:
        if isinstance(answer, Enqueued):
            answers.setdefault(answer.id, deque()).append(answer)
    unknown = set(lost.unknown)
    truths: list[Truth] = []
    for job in jobs:
        # An id that was sent twice is unknown when one of the two is: nobody can say which.
        if job.id in unknown or not answers.get(job.id):
            mine = OutcomeUnknown(str(lost), unknown=[job.id])
            mine.__cause__ = lost
            truths.append(mine)
        else:
            truths.append(answers[job.id].popleft())
    return truths
