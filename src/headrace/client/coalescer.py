"""The coalescer: jobs that many tasks send at once go to the store in one call."""

import asyncio

from headrace.client.batch import Truth, batches, check_job, take_in
from headrace.client.eager import start_task
from headrace.model.answers import Enqueued
from headrace.model.errors import HeadraceError
from headrace.model.job import Job
from headrace.stores.contract.jobs import Jobs

_Sender = tuple[Job, "asyncio.Future[Enqueued]"]


class Coalescer:
    """Collects what is sent within one turn of the event loop; every sender gets its own answer or error.

    A task that is cancelled before the turn is over takes its job along; after that the job is on its way.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._senders: list[_Sender] = []
        self._flights: set[asyncio.Task[None]] = set()

    async def send(self, job: Job) -> Enqueued:
        """Send one job along with those of its neighbours; what the store says of it."""
        check_job(job)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Enqueued] = loop.create_future()
        if not self._senders:
            loop.call_soon(self._leave)
        self._senders.append((job, answer))
        return await answer

    def _leave(self) -> None:
        senders = [sender for sender in self._senders if not sender[1].done()]
        self._senders = []
        if senders:
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
                for truth in await take_in(self._jobs, batch):
                    _tell(next(left)[1], truth)
        except Exception as error:  # noqa: BLE001 - a fault of the store's belongs to those who asked
            for answer in answers:
                if not answer.done():
                    answer.set_exception(error)
        finally:
            for answer in answers:
                answer.cancel()  # nothing where all have been told; else the loop is ending


def _tell(answer: "asyncio.Future[Enqueued]", truth: Truth) -> None:
    if answer.done():
        return  # its sender was cancelled
    if isinstance(truth, HeadraceError):
        answer.set_exception(truth)
    else:
        answer.set_result(truth)
