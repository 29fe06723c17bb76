"""An item queue hands each item to exactly one consumer, first in, first out."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Iterable
from typing import Any

from headrace.client.tasks import UNANSWERED, Backoff, feed_backoff
from headrace.feeds.feed import AnyFeed, publish, publish_many
from headrace.model.errors import HeadraceError, OutcomeUnknown, Refused
from headrace.model.feed import FIRST, LAST, FeedName, Item, ItemPosition, Publication
from headrace.model.limits import BATCH_MAX, FEED_LOOK_MS
from headrace.model.times import Duration, duration_ms
from headrace.stores.contract.store import Store

Key = tuple[asyncio.AbstractEventLoop, int, FeedName]
_CONSUMERS: dict[Key, "ItemConsumer"] = {}


def consumer_of(store: Store, feed: FeedName, instance: str) -> "ItemConsumer":
    """The consumer of an item queue on the running event loop."""
    key = asyncio.get_running_loop(), id(store), feed
    if key not in _CONSUMERS:
        for other in [other for other in list(_CONSUMERS) if other[0].is_closed()]:
            _CONSUMERS.pop(other, None)
        _CONSUMERS[key] = ItemConsumer(store, feed, instance, key)
    return _CONSUMERS[key]


class ItemConsumer:
    """Takes items from the store for all waiting calls of `get` at once, and serves the calls in order.

    The item of a cancelled call goes to the next call, or else back to the front of the queue under its id.
    """

    def __init__(self, store: Store, feed: FeedName, instance: str, key: Key) -> None:
        self._store = store
        self._feed = feed
        self._instance = instance
        self._key = key
        self._waiters: deque[asyncio.Future[Item]] = deque()
        self._spare: deque[Item] = deque()
        """Items taken from the store and not yet returned."""
        self._task: asyncio.Task[None] | None = None
        self._sleep_task: asyncio.Task[bool] | None = None
        self._is_calling = False
        """Whether a call to the store is in flight, and may bring items."""
        self._checks: list[asyncio.Future[None]] = []
        """Futures, done after the next call to the store."""
        self._error: HeadraceError | None = None
        """The error of the last call to the store, if it failed."""

    async def get(self, timeout_s: float | None) -> Item | None:
        """The next item; waits until there is one. None after the time-out and a last check of the store."""
        waiter: asyncio.Future[Item] = self._key[0].create_future()
        self._waiters.append(waiter)
        self._start()
        try:
            await asyncio.wait([waiter], timeout=timeout_s)
            if not waiter.done() and self._error is None:
                either: list[asyncio.Future[Any]] = [waiter, self._next_check()]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._drop_waiter(waiter)
            raise
        if waiter.done():
            return waiter.result()
        self._drop_waiter(waiter)
        if self._error is not None:
            raise TimeoutError(f"the store did not answer in time: {self._error}") from self._error
        return None

    def give_back(self, item: Item) -> None:
        """Hand an item to the next waiter, or put it back."""
        self._spare.appendleft(item)
        self._start()

    async def settled(self) -> None:
        """Wait until unclaimed items are back in the store; call it before closing the store."""
        while self._task is not None and (self._spare or self._is_calling):
            await asyncio.wait([self._task], timeout=0.01)

    def _next_check(self) -> "asyncio.Future[None]":
        check: asyncio.Future[None] = self._key[0].create_future()
        self._checks.append(check)
        self._wake()
        return check

    def _wake(self) -> None:
        if self._sleep_task is not None:
            self._sleep_task.cancel()

    def _drop_waiter(self, waiter: "asyncio.Future[Item]") -> None:
        if waiter.done():
            if not waiter.cancelled() and waiter.exception() is None:
                self.give_back(waiter.result())
            return
        waiter.cancel()
        if all(each.done() for each in self._waiters):
            self._wake()  # it ends

    def _start(self) -> None:
        if self._task is None:
            # In its own context: it outlives the first request.
            self._task = self._key[0].create_task(self._serve(), context=contextvars.Context())

    async def _serve(self) -> None:
        backoff = feed_backoff()
        try:
            while self._hand_out() or self._spare:
                try:
                    await self._round(backoff)
                except UNANSWERED as error:
                    self._error = error
                    self._finish_checks(self._checks)
                    await backoff.pause()
        except Exception as error:  # noqa: BLE001 - raised by the waiting calls
            self._fail(len(self._waiters), error)
        finally:
            self._task = None
            self._finish_checks(self._checks)
            if not self._hand_out() and not self._spare:
                _CONSUMERS.pop(self._key, None)

    async def _round(self, backoff: Backoff) -> None:
        checks, self._checks, self._is_calling = self._checks, [], True
        try:
            is_done = await (self._put_back() if self._spare else self._take())
            self._error = None
        finally:
            self._is_calling = False
            self._finish_checks(checks)
        if is_done:
            backoff.reset()
        elif self._spare:
            await backoff.pause()
        else:
            await self._sleep()

    def _finish_checks(self, checks: "list[asyncio.Future[None]]") -> None:
        for check in checks:
            if not check.done():
                check.set_result(None)
        checks.clear()

    def _hand_out(self) -> int:
        """Hand spare items to waiters; the number of waiters left."""
        self._waiters = deque(each for each in self._waiters if not each.done())
        while self._waiters and self._spare:
            self._waiters.popleft().set_result(self._spare.popleft())
        return len(self._waiters)

    async def _take(self) -> bool:
        """Take an item for each waiter; returns whether there were enough."""
        wanted = min(len(self._waiters), BATCH_MAX)
        try:
            taken = await self._store.items.take(self._feed, wanted)
        except OutcomeUnknown as error:
            self._fail(wanted, error)  # an item may have been taken for each of them
            return True
        self._spare.extend(taken)
        self._hand_out()
        return len(taken) == wanted

    async def _put_back(self) -> bool:
        """Put spare items back to the front, the last first; returns whether all are back."""
        back = [Publication(item.item, item.id, FIRST) for item in reversed(self._spare)][:BATCH_MAX]
        try:
            answers = await self._store.items.publish(self._feed, back, instance=self._instance)
        except Refused:
            self._spare.clear()  # the queue was deleted with its items
            return True
        gone = {answer.id for answer in answers if answer.status != "full"}
        self._spare = deque(item for item in self._spare if item.id not in gone)
        return not self._spare

    async def _sleep(self) -> None:
        sleeping = self._sleep_task = asyncio.create_task(
            self._store.signals.changed(self._feed, None, 0 if self._checks else FEED_LOOK_MS)
        )
        try:
            await asyncio.wait([sleeping])
        finally:
            sleeping.cancel()
            self._sleep_task = None
        if not sleeping.cancelled() and (error := sleeping.exception()) is not None:
            raise error

    def _fail(self, count: int, error: Exception) -> None:
        for each in [each for each in self._waiters if not each.done()][:count]:
            each.set_exception(error)


class ItemQueue(AnyFeed):
    """First in, first out; every item goes to exactly one call of `get`.

    There are no leases: an item that `get` returned is lost if the program crashes. Use a job queue for work that must
    be done.
    """

    async def put(self, item: object, *, high: bool = False) -> str:
        """Put an item last and return its id; with `high` first, so that it is next."""
        return await publish(self._context, self.feed, self._publication(item, FIRST if high else LAST))

    async def put_many(self, items: Iterable[object], *, high: bool = False) -> list[str]:
        """Put any number of items in their order, in as few calls as possible, and return their ids; with `high`, the
        last of them is next."""
        position = FIRST if high else LAST
        return await publish_many(self._context, self.feed, (self._publication(item, position) for item in items))

    async def get(self, timeout: Duration | None = None, *, type: Any = Any) -> Any:  # noqa: ASYNC109 - it says more
        """Take the next item, decoded as `type`; waits until there is one.

        `timeout` ("30s", or seconds) bounds the wait and raises TimeoutError; 0 checks once; by default the wait has no
        end. A cancelled call leaves its item to the next one. Raises `Refused` if the queue is deleted, and
        `OutcomeUnknown` if the reply was lost and an item may have been taken.
        """
        return self._context.codec.decode((await self.take(timeout)).item, type)

    async def take(self, timeout: Duration | None = None) -> Item:  # noqa: ASYNC109 - likewise
        """Like `get`, but returns the stored item with its id."""
        timeout_s = None if timeout is None else duration_ms("timeout", timeout) / 1_000
        found = await self._consumer.get(timeout_s)
        if found is None:
            raise TimeoutError(f"no item came into {str(self.feed)!r} in time; wait longer, or try again later")
        return found

    async def give_back(self, item: Item) -> None:
        """Put a taken item back to the front; a waiting call may get it at once."""
        self._consumer.give_back(item)
        await self.settled()

    async def settled(self) -> None:
        """Wait until the items of cancelled calls are back; call it before closing the store."""
        await self._consumer.settled()

    @property
    def _consumer(self) -> ItemConsumer:
        return consumer_of(self._context.store, self.feed, self._context.instance)

    def _publication(self, item: object, position: ItemPosition) -> Publication:
        return Publication(self._context.codec.encode(item), self._context.fresh_id(), position)
