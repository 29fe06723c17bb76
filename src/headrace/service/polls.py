"""Bounds requests that run or wait at once, ends waits at shutdown, and notices clients that have left."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, TypeVar

from headrace.model.limits import (
    POLLS_MAX,
    POLLS_PER_TENANT_MAX,
    REQUESTS_MAX,
    STREAMS_MAX,
    STREAMS_PER_TENANT_MAX,
)
from headrace.service.problems import RequestProblem

T = TypeVar("T")
_RETRY = ((b"retry-after", b"1"),)


class Admission:
    """Counts the requests, waiting requests and streams of this process."""

    def __init__(self) -> None:
        self.requests = 0
        self.polls = TenantCounts()
        self.streams = TenantCounts()

    def enter(self) -> None:
        """Count one request, until `leave`; waiting ones and streams have bounds of their own, and are left out."""
        if self.requests - self.polls.total - self.streams.total >= REQUESTS_MAX:
            raise RequestProblem("busy", "the service is busy; send the request again", _RETRY)
        self.requests += 1

    def leave(self) -> None:
        """A request that was counted has ended."""
        self.requests -= 1

    @asynccontextmanager
    async def poll(self, tenant: str) -> AsyncIterator[None]:
        """One waiting request of a tenant."""
        if self.polls.of(tenant) >= POLLS_PER_TENANT_MAX or self.polls.total >= POLLS_MAX:
            raise RequestProblem("too_many_polls", "too many requests of the tenant wait; send fewer of them", _RETRY)
        with self.polls.one(tenant):
            yield

    @contextmanager
    def stream(self, tenant: str) -> Iterator[None]:
        """One stream of a tenant."""
        if self.streams.of(tenant) >= STREAMS_PER_TENANT_MAX or self.streams.total >= STREAMS_MAX:
            raise RequestProblem("too_many_streams", "the tenant has too many open streams; close some", _RETRY)
        with self.streams.one(tenant):
            yield


class TenantCounts:
    """Counts by tenant, with their total: each request asks for it."""

    def __init__(self) -> None:
        self.total = 0
        self._counts: Counter[str] = Counter()

    def of(self, tenant: str) -> int:
        """The count of a tenant."""
        return self._counts[tenant]

    @contextmanager
    def one(self, tenant: str) -> Iterator[None]:
        """Count one more for the time of the block."""
        self._counts[tenant] += 1
        self.total += 1
        try:
            yield
        finally:
            self.total -= 1
            self._counts[tenant] -= 1
            if not self._counts[tenant]:
                del self._counts[tenant]


class Shutdown:
    """Whether the service is stopping: then waits and streams end."""

    def __init__(self) -> None:
        self.is_begun = False
        self._event: asyncio.Event | None = None

    def begin(self) -> None:
        """End all waits."""
        self.is_begun = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Return when the service is stopping."""
        if self._event is None:
            self._event = asyncio.Event()
            if self.is_begun:
                self._event.set()
        await self._event.wait()


class PolledClient:
    """Watches the client of a waiting request; its future is done when the client has left."""

    def __init__(self, receive: Any) -> None:
        self._receive = receive
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "asyncio.Future[None]":
        self._task = asyncio.get_running_loop().create_task(self._watch())
        return self._task

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def first_of(work: Awaitable[T], *ends: Awaitable[Any]) -> T | None:
    """The result of `work`, or None if one of the `ends` comes first; then `work` is cancelled, the ends are not."""
    task = asyncio.ensure_future(work)
    others = [asyncio.ensure_future(each) for each in ends]
    try:
        await asyncio.wait([task, *others], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        started = [task, *(other for other, end in zip(others, ends, strict=True) if other is not end)]
        for each in started:
            each.cancel()
        await asyncio.gather(*started, return_exceptions=True)
