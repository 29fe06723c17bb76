"""Signals: hints that a claim may succeed, that a job has ended, or that a feed has changed. Rows are the truth; a lost
hint costs latency, never a job."""

from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.model.feed import FeedCursor, FeedName
from headrace.model.names import Queue


class Signals(Protocol):
    """Let an idle worker sleep until a claim may succeed, a caller until its job has ended, and a reader of a feed
    until there are more changes."""

    async def wait(self, queues: Sequence[Queue], timeout_ms: int) -> bool:
        """Return True as soon as a claim on `queues` may succeed, False after `timeout_ms`.

        Checks on entry, so an earlier enqueue is not missed. A job that becomes due does not wake: wait no longer than
        until the claim's `next_at_ms`; an enqueue with an earlier time does wake.
        """

    async def ended(self, queue: Queue, ids: Sequence[str], timeout_ms: int) -> bool:
        """Return True as soon as one of `ids` may have ended (done, cancelled, dead or removed), False after
        `timeout_ms`.

        Checks on entry by the store's clock: an id that neither waits nor runs answers at once, and so does one whose
        finished job is kept, also while the blocked job that it freed waits. Then every finished job, dead letter or
        removal of one of the ids wakes. Read the outcome with `reads.find`."""

    async def changed(self, feed: FeedName, after: FeedCursor | None, timeout_ms: int) -> bool:
        """Return True as soon as the log of a feed may end elsewhere than at `after`, or an item queue may hold items;
        False after `timeout_ms`.

        Checks on entry. Without a cursor: as soon as there is such a feed, or, if it is an item queue, as soon as it
        holds an item. With one, a deleted or recreated feed answers at once.
        """


class HintSource(Protocol):
    """Signals that can call a function when a hint arrives; a store may offer them in addition."""

    async def wait_unless(self, queues: Sequence[Queue], timeout_ms: int, taken: Callable[[], bool]) -> bool:
        """Like `wait`, but each hint calls `taken`, and the wait continues if that returns True. It must not raise."""
