"""Lets claims that wait for the same queues stand in line, so that new work wakes one of them and not all."""

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any

from headrace.client.batching import copy_error
from headrace.client.tasks import UNANSWERED, retry
from headrace.model.claim import ClaimRequest, Claims
from headrace.model.errors import HeadraceError, StoreUnavailable
from headrace.model.limits import PARK_PAUSE_MS_MAX, PARK_WAIT_MS_MAX
from headrace.model.names import Queue
from headrace.model.outcome import Released
from headrace.model.validate import check_int
from headrace.stores.contract.store import Store


class ParkedClaims:
    """Claims of one process that wait for work.

    Claims of the same queues stand in line and share one wait on the store. When work arrives, the first of them
    claims, and the next one only if that one found something: a thousand waiting claims cost the store two calls.
    Belongs to the event loop that makes it; close it when done.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lines: dict[frozenset[Queue], _Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def __len__(self) -> int:
        """The number of claims that wait."""
        return sum(len(line.waiters) for line in self._lines.values())

    async def claim(self, request: ClaimRequest, wait_ms: int) -> Claims:
        """Claim; if there is nothing, wait up to `wait_ms` for work, first come, first served.

        A claim looks once by itself as it arrives, so one that is repeated after a lost answer gets its jobs at once.
        A cancelled one keeps no jobs: those that were claimed for it meanwhile are released, uncharged.
        """
        check_int("wait_ms", wait_ms, 0, PARK_WAIT_MS_MAX)
        looking = self._start(self._store.jobs.claim(request))
        try:
            claims: Claims = await asyncio.shield(looking)
        except asyncio.CancelledError:
            self._start(self._release_answer(looking))
            raise
        if claims.items or not wait_ms or self._is_closed:
            return claims
        key = frozenset(request.queues)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(self, request)
        return await line.stand(request, claims, wait_ms)

    async def close(self) -> None:
        """Answer all waiting claims, with no jobs, and release what is on its way to them."""
        self._is_closed = True
        for line in list(self._lines.values()):
            line.answer_all()
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, coroutine: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        # In its own context: it may outlive the request that starts it.
        task = asyncio.get_running_loop().create_task(coroutine, context=contextvars.Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _release_answer(self, looking: "asyncio.Task[Claims]") -> None:
        try:
            claims = await looking
        except HeadraceError:
            return  # a lost answer: its leases run out
        await self.release(claims)

    async def release(self, claims: Claims) -> None:
        """Give back jobs that no one waits for any more; the lease of a job ends it otherwise."""
        if claims.items:
            settlements = [claim.settle(Released()) for claim in claims.items]
            try:
                await retry(lambda: self._store.jobs.settle(settlements), times=3)
            except UNANSWERED:
                return


class _Line:
    """The waiting claims of a set of queues, and the task that claims for the first of them."""

    def __init__(self, parked: ParkedClaims, request: ClaimRequest) -> None:
        self.waiters: dict[asyncio.Future[Claims], ClaimRequest] = {}
        self._parked = parked
        self._queues = list(dict.fromkeys(request.queues))
        self._loop = asyncio.get_running_loop()
        self._last: Claims | None = None
        """The last answer, which had no jobs, and when it came."""
        self._last_at = 0.0
        self._server: asyncio.Task[None] | None = None
        self._is_idle = False
        """Whether its task only waits, so that it may be cancelled."""

    async def stand(self, request: ClaimRequest, claims: Claims, wait_ms: int) -> Claims:
        """Wait for the turn of a request that has found nothing."""
        self._note(claims)
        waiter: asyncio.Future[Claims] = self._loop.create_future()
        self.waiters[waiter] = request
        if self._server is None:
            self._server = self._parked._start(self._serve())
        try:
            await asyncio.wait([waiter], timeout=wait_ms / 1_000)
        except asyncio.CancelledError:
            if waiter.done() and waiter.exception() is None:
                self._parked._start(self._parked.release(waiter.result()))
            raise
        finally:
            self._leave(waiter)
        return waiter.result() if waiter.done() else self._nothing()

    def _leave(self, waiter: "asyncio.Future[Claims]") -> None:
        self.waiters.pop(waiter, None)
        if not self.waiters and self._is_idle and self._server is not None:
            self._server.cancel()
            self._end()

    def answer_all(self) -> None:
        """Answer all waiters with no jobs."""
        for waiter in list(self.waiters):
            if not waiter.done():
                waiter.set_result(self._nothing())
        self.waiters.clear()
        if self._is_idle and self._server is not None:
            self._server.cancel()
            self._end()

    def _end(self) -> None:
        self._server = None
        lines = self._parked._lines
        for key in [key for key, line in lines.items() if line is self]:
            del lines[key]

    def _note(self, claims: Claims) -> None:
        self._last, self._last_at = claims, self._loop.time()

    def _nothing(self) -> Claims:
        """An answer without jobs, by the store's clock as of now."""
        last = self._last or Claims([], None, 0)
        passed_ms = int((self._loop.time() - self._last_at) * 1_000)
        return Claims([], last.next_at_ms, last.now_ms + passed_ms)

    def _wait_ms(self) -> int:
        """How long to wait for a hint: until a job becomes due or a lease ends."""
        now = self._nothing()
        if now.next_at_ms is None:
            return PARK_WAIT_MS_MAX
        return min(max(now.next_at_ms - now.now_ms, 0), PARK_WAIT_MS_MAX)

    async def _serve(self) -> None:
        fruitless = 0
        try:
            while self.waiters:
                wait_ms = self._wait_ms()
                self._is_idle = True
                is_woken = await self._parked._store.signals.wait(self._queues, wait_ms)
                if fruitless > 1:
                    await asyncio.sleep(min(2**fruitless, PARK_PAUSE_MS_MAX) / 1_000)  # a hint that leads to nothing
                self._is_idle = False
                if is_woken or wait_ms < PARK_WAIT_MS_MAX:
                    fruitless = 0 if await self._serve_first() else fruitless + is_woken
        except Exception as error:  # noqa: BLE001 - raised by the waiters
            for waiter in list(self.waiters):
                self._fail(waiter, error)
        finally:
            if self._server is asyncio.current_task():
                self._end()

    async def _serve_first(self) -> bool:
        """Claim for one waiter after the other until one finds nothing; whether any found jobs."""
        has_found = False
        while self.waiters:
            waiter, request = next(iter(self.waiters.items()))
            try:
                claims = await self._parked._store.jobs.claim(request)
            except StoreUnavailable:
                raise
            except HeadraceError as error:
                self._fail(waiter, error)
                continue
            if not claims.items:
                self._note(claims)
                return has_found
            has_found = True
            if waiter.done() or waiter not in self.waiters:
                await self._parked.release(claims)
            else:
                del self.waiters[waiter]
                waiter.set_result(claims)
        return has_found

    def _fail(self, waiter: "asyncio.Future[Claims]", error: Exception) -> None:
        if self.waiters.pop(waiter, None) is not None and not waiter.done():
            waiter.set_exception(copy_error(error) if isinstance(error, HeadraceError) else error)
