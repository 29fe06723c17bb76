"""The heart: extends the leases of all runs, and lets go of those that it could not extend in time."""

import asyncio
import random
from collections.abc import Callable, Sequence

from headrace.model.errors import HeadraceError, OutcomeUnknown
from headrace.model.limits import BATCH_MAX
from headrace.model.results import Extended
from headrace.stores.contract.store import Store
from headrace.worker.run import Run

MARGIN = 0.1
"""The part of a lease that is left to a handler for ending, once the lease cannot be extended."""
RETRY_SECONDS = 0.05
RETRY_SECONDS_MAX = 2.0

Report = Callable[[Sequence[tuple[Run, str]], Sequence[Run]], None]
"""Takes the runs that were lost, each with why, and those that were asked to cancel."""


class Heart:
    """Beats on a loop of its own where it can, so that a handler that blocks the worker's loop costs no lease. A lease
    counts as lost before the store can think so: then no two workers believe that they hold it."""

    def __init__(
        self, runs: dict[int, Run], lease_ms: int, heartbeat_ms: int, report: Report, chance: random.Random
    ) -> None:
        self._runs = runs
        self._lease_ms = lease_ms
        self._lease = lease_ms / 1000
        self._beat = heartbeat_ms / 1000
        self._margin = self._lease * MARGIN
        self._report = report
        self._chance = chance
        self._failures = 0
        self.beaten_at: float | None = None
        """When all leases were last extended that had to be."""

    def has_time_for(self, holds_until: float, now: float) -> bool:
        """Whether a lease that holds so long is seen to by the next beat, however late that is."""
        return holds_until - self._margin - self._beat > now

    async def run(self, store: Store) -> None:
        """Beat until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            began_at = loop.time()
            self.fence(began_at)
            await self._extend(store, began_at)
            now = loop.time()
            self.fence(now)
            await asyncio.sleep(max(self._next_at(began_at, now) - now, 0))

    def _next_at(self, began_at: float, now: float) -> float:
        next_at = began_at + self._beat
        if self._failures:
            pause = min(RETRY_SECONDS * (1 << min(self._failures, 16)), RETRY_SECONDS_MAX, self._beat)
            next_at = now + pause * self._chance.uniform(0.5, 1.0)
        ends = [self._fences_at(run) for run in self._held()]
        return min([next_at, *(end for end in ends if end > now)])

    def _held(self) -> list[Run]:
        # The other thread adds and takes away; copying a dict's values is one step for the interpreter.
        return [run for run in list(self._runs.values()) if not run.is_lost]

    def _fences_at(self, run: Run) -> float:
        return run.holds_until - self._margin

    def fence(self, now: float) -> None:
        """Let go of what could not be extended in time."""
        lost = [run for run in self._held() if self._fences_at(run) <= now]
        for run in lost:
            run.is_lost = True
        if lost:
            self._report([(run, "its lease could not be extended in time") for run in lost], ())

    async def _extend(self, store: Store, now: float) -> None:
        # One that was claimed a moment ago has time until the next beat.
        old = [run for run in self._held() if run.holds_until - now < self._lease - self._beat / 2]
        failed = False
        for at in range(0, len(old), BATCH_MAX):
            failed = not await self._extend_some(store, old[at : at + BATCH_MAX]) or failed
        if failed:
            self._failures += 1
        else:
            self._failures = 0
            self.beaten_at = asyncio.get_running_loop().time()

    async def _extend_some(self, store: Store, runs: Sequence[Run]) -> bool:
        loop = asyncio.get_running_loop()
        sent_at = loop.time()
        # Others may have come meanwhile, whose turn is with the next beat.
        patience = min(min(self._fences_at(run) for run in runs) - sent_at, self._beat)
        leases = [run.claim.lease for run in runs]
        try:
            async with asyncio.timeout(max(patience, 0)):
                answers = await store.jobs.extend(leases, lease_ms=self._lease_ms)
        except OutcomeUnknown as unknown:
            known = [answer for answer in unknown.known if isinstance(answer, Extended)]
            if len({lease.id for lease in leases}) == len(leases):  # else nobody knows which is meant
                by_id = {answer.id: answer for answer in known}
                self._take([(run, by_id[run.claim.lease.id]) for run in runs if run.claim.lease.id in by_id], sent_at)
            return False
        except (HeadraceError, OSError):  # one of them is TimeoutError
            return False
        self._take(list(zip(runs, answers, strict=True)), sent_at)
        return True

    def _take(self, answers: Sequence[tuple[Run, Extended]], sent_at: float) -> None:
        lost: list[tuple[Run, str]] = []
        asked: list[Run] = []
        for run, answer in answers:
            if answer.ok:
                run.holds_until = max(run.holds_until, sent_at + self._lease)
                if answer.cancel_asked:
                    asked.append(run)
            elif not run.is_settling and not run.is_uncertain and run.number in self._runs:
                # One that is being settled, or was, may be gone for that: the answer to its settlement tells.
                run.is_lost = True
                lost.append((run, f"the store says {answer.status}"))
        if lost or asked:
            self._report(lost, asked)
