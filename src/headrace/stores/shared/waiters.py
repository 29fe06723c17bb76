"""Wakes coroutines that wait for queues, jobs or feeds, and shares one read among callers that want it at once."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from headrace.model.feed import FeedName, check_cursor
from headrace.model.limits import DURATION_MS_MAX, QUEUES_PER_CLAIM_MAX
from headrace.model.names import Queue
from headrace.model.validate import check_batch, check_int
from headrace.stores.shared.validate import check_ids

Name = tuple[str, str]
"""The key of a queue for waiters: tenant and full name."""
Watched = TypeVar("Watched", bound=Hashable)


def name_of(queue: Queue) -> Name:
    """The key of a queue for waiters."""
    return queue.tenant, queue.full_name


class Woken(Protocol):
    """An event that a signal sets, or a callback with the same method."""

    def set(self) -> None:
        """Be woken."""


class Waiters(Generic[Watched]):
    """The waiting coroutines of this process, by the key that they watch: a queue, a job or a feed."""

    def __init__(self) -> None:
        # Dictionaries keep the order of arrival: sets would wake in the order of memory addresses.
        self._events: dict[Watched, dict[Woken, None]] = {}

    def __len__(self) -> int:
        return len(self._events)

    @contextmanager
    def watching(self, names: Sequence[Watched]) -> Iterator[asyncio.Event]:
        """An event that is set when one of the names is woken, as long as the block lasts."""
        event = asyncio.Event()
        with self.waking(names, event):
            yield event

    @contextmanager
    def waking(self, names: Sequence[Watched], event: Woken) -> Iterator[None]:
        """Set `event` when one of the names is woken, as long as the block lasts."""
        for name in names:
            self._events.setdefault(name, {})[event] = None
        try:
            yield
        finally:
            for name in names:
                self._events[name].pop(event, None)
                if not self._events[name]:
                    del self._events[name]

    def wake(self, names: Iterable[Watched]) -> None:
        """Wake all waiters of the names; call it on the event loop's thread."""
        if not self._events:
            return
        for name in names:
            for event in list(self._events.get(name, ())):
                event.set()


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event is set before the time is over."""
    try:
        # Not wait_for: its task costs turns of the loop just when a waiter is woken.
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def check_wait(queues: Sequence[Queue], timeout_ms: object) -> list[Name]:
    """Refuse an invalid wait; returns the names to watch, each once."""
    check_batch("queues", len(queues), QUEUES_PER_CLAIM_MAX)
    check_int("timeout_ms", timeout_ms, 0, DURATION_MS_MAX)
    return list(dict.fromkeys(map(name_of, queues)))


JobName = tuple[str, str, str]
"""The key of a job for waiters: tenant and full name of its queue, and its id."""


def names_of(queue: Queue, ids: Iterable[str]) -> list[JobName]:
    """The keys of jobs for waiters, each once."""
    tenant, name = queue.tenant, queue.full_name
    return [(tenant, name, id) for id in dict.fromkeys(ids)]


def check_ended(queue: Queue, ids: Sequence[str], timeout_ms: object) -> None:
    """Refuse an invalid wait."""
    check_ids(queue, ids)
    check_int("timeout_ms", timeout_ms, 0, DURATION_MS_MAX)


def check_changed(feed: FeedName, after: object, timeout_ms: object) -> FeedName:
    """Refuse an invalid wait; returns the name to watch."""
    check_cursor(after)
    check_int("timeout_ms", timeout_ms, 0, DURATION_MS_MAX)
    return feed


T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Gives each caller the result of a read that began after the call, so that it sees every earlier write.

    At most two reads are pending: the running one, and the next one, which all later callers share.
    """

    def __init__(self, read: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._read = read
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def run(self) -> T:
        """The result of a read; a cancelled caller leaves the read to the others."""
        if self._running is None:
            self._running = task = self._begin(self._read())
        elif self._next is None:
            self._next = task = self._begin(self._after(self._running))
        else:
            task = self._next
        return await asyncio.shield(task)

    def close(self) -> None:
        """Cancel pending reads."""
        for task in (self._running, self._next):
            if task is not None:
                task.cancel()

    async def _after(self, running: "asyncio.Task[T]") -> T:
        await asyncio.wait([running])
        self._running, self._next = self._next, None
        return await self._read()

    def _begin(self, read: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        # In its own context: it does not belong to the request of the first caller.
        task = asyncio.get_running_loop().create_task(read, context=contextvars.Context())
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[T]") -> None:
        retrieve_error(task)
        if self._running is task:
            self._running = None  # drop the result: it is large and soon stale


def retrieve_error(task: "asyncio.Task[Any]") -> None:
    """Mark the error of a task as retrieved, since asyncio logs errors that no caller waits for."""
    if not task.cancelled():
        task.exception()
