"""A plain queue: items that are put in and taken out, each by one."""

import asyncio
import contextvars
from collections import deque
from collections.abc import Iterable
from typing import Any

from headrace.client.retry import UNANSWERED, Backoff, feed_backoff
from headrace.feeds.feed import AnyFeed
from headrace.feeds.publish import publish, publish_many
from headrace.model.errors import HeadraceError, OutcomeUnknown, Refused
from headrace.model.feed import FIRST, LAST, FeedName, Item, ItemPosition, Publication
from headrace.model.limits import BATCH_MAX, FEED_LOOK_MS
from headrace.model.times import Duration, duration_ms
from headrace.stores.contract.store import Store

Key = tuple[asyncio.AbstractEventLoop, int, FeedName]
_TAKERS: dict[Key, "ItemConsumer"] = {}


def consumer_of(store: Store, feed: FeedName, instance: str) -> "ItemConsumer":
    """The taker of a plain queue on the running event loop."""
    key = asyncio.get_running_loop(), id(store), feed
    if key not in _TAKERS:
        for other in [other for other in list(_TAKERS) if other[0].is_closed()]:
            _TAKERS.pop(other, None)
        _TAKERS[key] = ItemConsumer(store, feed, instance, key)
    return _TAKERS[key]


class ItemConsumer:
    """Asks the store once for all who wait, and serves them in the order of their coming.

    An item that was taken for somebody who did not wait for it any longer goes to the next one here; without one it
    goes back to where it was, first in line under its id.
    """

    def __init__(self, store: Store, feed: FeedName, instance: str, key: Key) -> None:
        self._store = store
        self._feed = feed
        self._instance = instance
        self._key = key
        self._waiting: deque[asyncio.Future[Item]] = deque()
        self._spare: deque[Item] = deque()
        """Taken, and nobody's."""
        self._serving: asyncio.Task[None] | None = None
        self._sleeping: asyncio.Task[bool] | None = None
        self._is_asking = False
        """Whether the store is being asked, so that items may be on their way."""
        self._looks: list[asyncio.Future[None]] = []
        """Done when the store was asked once more."""
        self._trouble: HeadraceError | None = None
        """Why the store could not be asked, if it could not."""

    async def get(self, timeout_s: float | None) -> Item | None:
        """The next item, as soon as there is one; None after the time, when the store has none even then."""
        here: asyncio.Future[Item] = self._key[0].create_future()
        self._waiting.append(here)
        self._start()
        try:
            await asyncio.wait([here], timeout=timeout_s)
            if not here.done() and self._trouble is None:
                either: list[asyncio.Future[Any]] = [here, self._look_again()]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._give_up(here)
            raise
        if here.done():
            return here.result()
        self._give_up(here)
        if self._trouble is not None:
            raise TimeoutError(f"the store could not be asked in time: {self._trouble}") from self._trouble
        return None

    def give_back(self, item: Item) -> None:
        """Have an item handed to the next one, or put back."""
        self._spare.appendleft(item)
        self._start()

    async def settled(self) -> None:
        """Wait until nothing is in hand that nobody waits for: before the store is closed."""
        while self._serving is not None and (self._spare or self._is_asking):
            await asyncio.wait([self._serving], timeout=0.01)

    def _look_again(self) -> "asyncio.Future[None]":
        look: asyncio.Future[None] = self._key[0].create_future()
        self._looks.append(look)
        self._wake()
        return look

    def _wake(self) -> None:
        if self._sleeping is not None:
            self._sleeping.cancel()

    def _give_up(self, here: "asyncio.Future[Item]") -> None:
        if here.done():
            if not here.cancelled() and here.exception() is None:
                self.give_back(here.result())
            return
        here.cancel()
        if all(each.done() for each in self._waiting):
            self._wake()  # to its end

    def _start(self) -> None:
        if self._serving is None:
            # In a context of its own: it serves others as well as the one who came first.
            self._serving = self._key[0].create_task(self._serve(), context=contextvars.Context())

    async def _serve(self) -> None:
        backoff = feed_backoff()
        try:
            while self._hand_out() or self._spare:
                try:
                    await self._round(backoff)
                except UNANSWERED as error:
                    self._trouble = error
                    self._looked(self._looks)
                    await backoff.pause()
        except Exception as error:  # noqa: BLE001 - told to those who wait
            self._fail(len(self._waiting), error)
        finally:
            self._serving = None
            self._looked(self._looks)
            if not self._hand_out() and not self._spare:
                _TAKERS.pop(self._key, None)

    async def _round(self, backoff: Backoff) -> None:
        looks, self._looks, self._is_asking = self._looks, [], True
        try:
            is_done = await (self._put_back() if self._spare else self._take())
            self._trouble = None
        finally:
            self._is_asking = False
            self._looked(looks)
        if is_done:
            backoff.reset()
        elif self._spare:
            await backoff.pause()
        else:
            await self._sleep()

    def _looked(self, looks: "list[asyncio.Future[None]]") -> None:
        for look in looks:
            if not look.done():
                look.set_result(None)
        looks.clear()

    def _hand_out(self) -> int:
        """Give what is at hand to those who wait, and say how many still do."""
        self._waiting = deque(each for each in self._waiting if not each.done())
        while self._waiting and self._spare:
            self._waiting.popleft().set_result(self._spare.popleft())
        return len(self._waiting)

    async def _take(self) -> bool:
        """Take for all who wait; whether there was enough."""
        wanted = min(len(self._waiting), BATCH_MAX)
        try:
            taken = await self._store.items.take(self._feed, wanted)
        except OutcomeUnknown as error:
            self._fail(wanted, error)  # each of them may have been given one that did not arrive
            return True
        self._spare.extend(taken)
        self._hand_out()
        return len(taken) == wanted

    async def _put_back(self) -> bool:
        """Put what nobody wants back to the front, the last first; whether it is all there."""
        back = [Publication(item.item, item.id, FIRST) for item in reversed(self._spare)][:BATCH_MAX]
        try:
            answers = await self._store.items.publish(self._feed, back, instance=self._instance)
        except Refused:
            self._spare.clear()  # the queue is gone, with all that was in it
            return True
        gone = {answer.id for answer in answers if answer.status != "full"}
        self._spare = deque(item for item in self._spare if item.id not in gone)
        return not self._spare

    async def _sleep(self) -> None:
        sleeping = self._sleeping = asyncio.create_task(
            self._store.signals.changed(self._feed, None, 0 if self._looks else FEED_LOOK_MS)
        )
        try:
            await asyncio.wait([sleeping])
        finally:
            sleeping.cancel()
            self._sleeping = None
        if not sleeping.cancelled() and (error := sleeping.exception()) is not None:
            raise error

    def _fail(self, count: int, error: Exception) -> None:
        for each in [each for each in self._waiting if not each.done()][:count]:
            each.set_exception(error)


class ItemQueue(AnyFeed):
    """First in, first out; every item is handed to exactly one who gets.

    There are no leases here: an item that was got is out of the queue, and is lost with the program that got it. Work
    that must be done belongs into a job queue.
    """

    async def put(self, item: object, *, high: bool = False) -> str:
        """Put an item last and return its id; with `high` first, next to be got."""
        return await publish(self._access, self.feed, self._publication(item, FIRST if high else LAST))

    async def put_many(self, items: Iterable[object], *, high: bool = False) -> list[str]:
        """Put any number of items in their order, in as few calls as possible, and return their ids; with `high`, the
        last of them is next."""
        position = FIRST if high else LAST
        return await publish_many(self._access, self.feed, (self._publication(item, position) for item in items))

    async def get(self, timeout: Duration | None = None, *, type: Any = Any) -> Any:  # noqa: ASYNC109 - it says more
        """Take the next item out, waiting for one if need be, and return it, read as `type`.

        `timeout` ("30s", or seconds) bounds the wait: then TimeoutError is raised. 0 looks once. Without it the wait
        has no end. Whoever is cancelled leaves the item to the next one. Raises `Refused` when the queue is deleted,
        and `OutcomeUnknown` when an item may have been taken and the answer got lost.
        """
        return self._access.codec.decode((await self.take(timeout)).item, type)

    async def take(self, timeout: Duration | None = None) -> Item:  # noqa: ASYNC109 - likewise
        """`get` for whoever wants the item as it is kept, with its id."""
        timeout_s = None if timeout is None else duration_ms("timeout", timeout) / 1_000
        found = await self._taker.get(timeout_s)
        if found is None:
            raise TimeoutError(f"nothing came into {str(self.feed)!r} in time; wait longer, or ask again later")
        return found

    async def give_back(self, item: Item) -> None:
        """Put an item that was taken back to where it was, first in line; who waits here may get it at once."""
        self._taker.give_back(item)
        await self.settled()

    async def settled(self) -> None:
        """Wait until what was taken for those who were cancelled is back: before the store is closed."""
        await self._taker.settled()

    @property
    def _taker(self) -> ItemConsumer:
        return consumer_of(self._access.store, self.feed, self._access.instance)

    def _publication(self, item: object, position: ItemPosition) -> Publication:
        return Publication(self._access.codec.encode(item), self._access.fresh_id(), position)
