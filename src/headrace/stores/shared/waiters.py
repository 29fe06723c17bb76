"""Waiters: what they look at before they sleep, and how they are woken."""

import asyncio
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from headrace.model.feed import FeedName, check_cursor
from headrace.model.limits import DURATION_MS_MAX, QUEUES_PER_CLAIM_MAX
from headrace.model.names import Queue
from headrace.model.validate import check_batch, check_int
from headrace.stores.shared.validate import check_ids

Name = tuple[str, str]
"""A queue as waiters know it: tenant and full name."""
Watched = TypeVar("Watched", bound=Hashable)


def name_of(queue: Queue) -> Name:
    """The name under which a queue is watched."""
    return queue.tenant, queue.full_name


class Woken(Protocol):
    """What is set when something happens: an event, or a callback in its shape."""

    def set(self) -> None:
        """Be woken."""


class Waiters(Generic[Watched]):
    """Those of this process who sleep until something happens to what they watch: queues, or jobs."""

    def __init__(self) -> None:
        # In the order of their coming: what happens next must not depend on where objects lie in memory.
        self._events: dict[Watched, dict[Woken, None]] = {}

    def __len__(self) -> int:
        return len(self._events)

    @contextmanager
    def watching(self, names: Sequence[Watched]) -> Iterator[asyncio.Event]:
        """An event that is set when one of these is woken, as long as the block lasts."""
        event = asyncio.Event()
        with self.waking(names, event):
            yield event

    @contextmanager
    def waking(self, names: Sequence[Watched], event: Woken) -> Iterator[None]:
        """`event` is set when one of these is woken, as long as the block lasts."""
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
        """Wake all who watch one of these; on the event loop's thread."""
        if not self._events:
            return
        for name in names:
            for event in list(self._events.get(name, ())):
                event.set()


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Whether the event is set before the time is over."""
    try:
        # Not wait_for, whose task of its own costs turns of the loop just when somebody is woken.
        async with asyncio.timeout(seconds):
            return await event.wait()
    except TimeoutError:
        return False


def check_wait(queues: Sequence[Queue], timeout_ms: object) -> list[Name]:
    """Refuse a wait that can never be right; returns the names to watch, each once."""
    check_batch("queues", len(queues), QUEUES_PER_CLAIM_MAX)
    check_int("timeout_ms", timeout_ms, 0, DURATION_MS_MAX)
    return list(dict.fromkeys(map(name_of, queues)))


JobName = tuple[str, str, str]
"""A job as those who wait for its end know it: tenant and full name of its queue, and its id."""


def names_of(queue: Queue, ids: Iterable[str]) -> list[JobName]:
    """The names under which jobs are watched, each once."""
    tenant, name = queue.tenant, queue.full_name
    return [(tenant, name, id) for id in dict.fromkeys(ids)]


def check_ended(queue: Queue, ids: Sequence[str], timeout_ms: object) -> None:
    """Refuse a wait that can never be right."""
    check_ids(queue, ids)
    check_int("timeout_ms", timeout_ms, 0, DURATION_MS_MAX)


def check_changed(feed: FeedName, after: object, timeout_ms: object) -> FeedName:
    """Refuse a wait that can never be right; returns the name to watch."""
    check_cursor(after)
    check_int("timeout_ms", timeout_ms, 0, DURATION_MS_MAX)
    return feed
