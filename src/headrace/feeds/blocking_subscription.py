"""A subscription for programs without an event loop."""

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from headrace.feeds.access import Access
from headrace.feeds.change import Change
from headrace.feeds.stream import Stream

if TYPE_CHECKING:
    from headrace.feeds.blocking import BlockingFeeds

Making = Callable[[Access, str | None], Stream]
"""Makes the stream from a cursor; can be pickled."""


class BlockingSubscription:
    """A `Subscription` for one thread: `for change in subscription`, which waits for the next one.

    Changes are fetched in batches. It goes on after a fork and after Ctrl-C, where it was; in the child of a fork as
    well. A pickle of it goes on behind the last change that was handed out.
    """

    def __init__(self, feeds: "BlockingFeeds", make: Making, cursor: str | None = None) -> None:
        self._feeds = feeds
        self._make = make
        self._cursor = cursor
        self._stream: Stream | None = None
        self._fetched: deque[Change] = deque()
        self._is_over = False

    @property
    def cursor(self) -> str | None:
        """The text to resume behind the last change that was handed out; None while the first items are told."""
        return self._cursor

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        if not self._fetched and not self._is_over:
            self._feeds.run(self._fetch, patient=True)
        if not self._fetched:
            raise StopIteration
        change = self._fetched.popleft()
        self._cursor = change.cursor
        return change

    def batch(self) -> list[Change]:
        """All changes that are at hand, at least one and at most 1,000; waits for the first. Empty at the end of a feed
        that was deleted."""
        first = next(self, None)
        changes = [] if first is None else [first]
        while self._fetched:
            changes.append(next(self))
        return changes

    def close(self) -> None:
        """Stop; whoever asks afterwards is at the end."""
        self._is_over = True
        self._fetched.clear()
        if self._stream is not None:
            self._feeds.run(self._close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockingSubscription, (self._feeds, self._make, self._cursor)

    async def _fetch(self, access: Access) -> None:
        if self._fetched:
            return  # brought by a call that Ctrl-C has interrupted
        if self._stream is None:
            self._stream = self._make(access, self._cursor)
        self._stream.move_to(access.store)
        batch = await self._stream.batch()
        # Kept here and not returned: the thread may be interrupted before it has seen the answer.
        self._fetched.extend(batch)
        self._is_over = not batch

    async def _close(self, access: Access) -> None:
        if self._stream is not None:
            self._stream.move_to(access.store)
            await self._stream.aclose()
