"""A plain queue: items that are put in and taken out, each by one."""

from collections.abc import Iterable
from typing import Any

from headrace.feeds.any_feed import AnyFeed
from headrace.feeds.publishing import publish, publish_many
from headrace.feeds.taker import Taker, taker_of
from headrace.model.feed import FIRST, LAST, Item, Place, Publication
from headrace.model.times import Duration, duration_ms


class PlainQueue(AnyFeed):
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
        place = FIRST if high else LAST
        return await publish_many(self._access, self.feed, (self._publication(item, place) for item in items))

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
        """Wait until what was taken for those who were cancelled is back in its place: before the store is closed."""
        await self._taker.settled()

    @property
    def _taker(self) -> Taker:
        return taker_of(self._access.store, self.feed, self._access.instance)

    def _publication(self, item: object, place: Place) -> Publication:
        return Publication(self._access.codec.encode(item), self._access.fresh_id(), place)
