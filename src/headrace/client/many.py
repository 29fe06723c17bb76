"""Sends any number of jobs: in batches, a few calls under way at once."""

import asyncio
from collections.abc import Callable, Iterable

from headrace.client.batch import Truth, batches, take_in
from headrace.model.errors import HeadraceError, OutcomeUnknown, Refused
from headrace.model.job import Job
from headrace.model.limits import ENQUEUES_IN_FLIGHT_MAX
from headrace.stores.contract.jobs import Jobs

Sent = list[tuple[Job, Truth]]
"""Every job with what became of it, in the order given."""


async def send_many(store: Jobs, jobs: Iterable[Job], progress: Callable[[int], None] | None) -> tuple[Sent, bool]:
    """Send jobs until all are sent or a call fails; True when it was all of them.

    Two calls with the same id are never under way at once, so the later one of two jobs with the same id wins.
    """
    flights: dict[asyncio.Task[list[Truth]], list[Job]] = {}
    landed: list[tuple[list[Job], asyncio.Task[list[Truth]]]] = []
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
            flight = asyncio.create_task(take_in(store, batch))
            flights[flight] = batch
            landed.append((batch, flight))
            aloft |= ids
        complete = await land(0) and complete
    finally:
        for flight in flights:
            flight.cancel()
    return [pair for batch, flight in landed for pair in zip(batch, flight.result(), strict=True)], complete


def is_lost(truth: Truth) -> bool:
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
