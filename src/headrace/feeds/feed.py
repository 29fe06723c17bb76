"""Feeds in the order of publication, bounded by count and age, and feeds in the order that callers choose."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from headrace.client.tasks import UNANSWERED
from headrace.feeds.context import FeedContext, snapshot
from headrace.feeds.subscription import Subscription
from headrace.model.errors import OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.feed import FIRST, LAST, FeedConfig, FeedName, ItemPosition, Move, Publication
from headrace.model.limits import BATCH_MAX, PUBLISH_BYTES_MAX
from headrace.model.results import FeedState, ItemsSnapshot, Published
from headrace.model.times import Duration
from headrace.model.validate import cut


class AnyFeed:
    """A feed of a tenant, as `Feeds` opens it. Belongs to the store's event loop."""

    def __init__(self, context: FeedContext, feed: FeedName) -> None:
        self.feed = feed
        """Its name and tenant."""
        self._context = context

    @property
    def name(self) -> str:
        """Its name."""
        return self.feed.name

    async def ids(self) -> list[str]:
        """The ids of all items, in the order of the feed."""
        return [item.id for item in (await self._all()).rows]

    async def item(self, id: str, *, type: Any = Any) -> Any:
        """The item with this id, decoded as `type`; None if it does not exist."""
        [found] = await self._context.store.items.find(self.feed, [id])
        return None if found is None else self._context.codec.decode(found.item, type)

    async def items(self, *, type: Any = Any) -> dict[str, Any]:
        """All items by id, in the order of the feed, as they were at one instant."""
        decode = self._context.codec.decode
        return {item.id: decode(item.item, type) for item in (await self._all()).rows}

    async def has(self, id: str) -> bool:
        """Whether an item has this id."""
        [found] = await self._context.store.items.find(self.feed, [id])
        return found is not None

    async def count(self) -> int:
        """The number of items."""
        state = await self._state()
        if state.config.items_keep_ms and await self._context.store.feeds.sweep(self.feed):
            state = await self._state()  # expired items do not count
        return state.items

    async def total(self) -> int:
        """The number of publications and edits since the feed was created."""
        return (await self._state()).total

    async def config(self) -> FeedConfig:
        """Its configuration."""
        return (await self._state()).config

    async def retract(self, id: str) -> bool:
        """Remove an item; False if it does not exist."""
        [answer] = await self._context.store.items.retract(self.feed, [id], instance=self._context.instance)
        return answer.status == "retracted"

    async def _all(self) -> ItemsSnapshot:
        found = await snapshot(self._context.store, self.feed)
        if found.as_of is None:
            raise unknown_feed(self.feed)
        return found

    async def _state(self) -> FeedState:
        state = await self._context.store.feeds.describe(self.feed)
        if state is None:
            raise unknown_feed(self.feed)
        return state

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self.feed)!r}>"


def unknown_feed(feed: FeedName) -> Refused:
    """The refusal of a feed that does not exist (any more)."""
    return Refused("unknown_feed", f"there is no feed {str(feed)!r} (any more); create it first")


class FollowedFeed(AnyFeed):
    """A feed with a log of changes, so that programs can subscribe to it."""

    async def edit(self, id: str, item: object) -> None:
        """Replace an item; raises `Refused` (`unknown_item`) if no item has this id."""
        publication = Publication(self._context.codec.encode(item), id, edit=True)
        await publish(self._context, self.feed, publication)

    def subscribe(
        self, *, cursor: str | None = None, own: bool = True, heartbeat: Duration | None = None, type: Any = Any
    ) -> Subscription:
        """The items, then each change: `async for change in feed.subscribe():`; see `Subscription`.

        With the `cursor` of an earlier change, only the changes since. `own=False` leaves out changes by this instance.
        `heartbeat` ("15s") yields a `heartbeat` after this long without a change. Items are decoded as `type`.
        """
        context = self._context
        excluded = None if own else context.instance
        return Subscription(
            context.store,
            self.feed,
            context.codec,
            cursor=cursor,
            heartbeat=heartbeat,
            excluded_instance=excluded,
            type=type,
        )


class Feed(FollowedFeed):
    """Items in the order of their publication. Beyond `items_max` and `items_keep_ms` the oldest are evicted."""

    async def publish(self, item: object, *, id: str | None = None) -> str:
        """Publish an item and return its id, a fresh one by default. A known id is edited, and goes last."""
        return await publish(self._context, self.feed, self._publication(item, id))

    async def publish_many(self, items: Iterable[object], *, ids: Sequence[str] | None = None) -> list[str]:
        """Publish any number of items in their order, in as few calls as possible, and return their ids.

        If the store stops answering, `OutcomeUnknown` has the published ids as `known` and the others in doubt as
        `unknown`; it is safe to publish the latter again under their ids.
        """
        pairs = with_ids(items, ids)
        return await publish_many(self._context, self.feed, (self._publication(item, id) for item, id in pairs))

    def _publication(self, item: object, id: str | None) -> Publication:
        return Publication(self._context.codec.encode(item), self._context.fresh_id() if id is None else id)


def with_ids(items: Iterable[object], ids: Sequence[str] | None) -> list[tuple[object, str | None]]:
    """Each item with its id; None if the store draws it."""
    listed = list(items)
    if ids is None:
        return [(item, None) for item in listed]
    if len(ids) != len(listed):
        raise Refused("bad_id", f"{len(listed)} items and {len(ids)} ids were given; give each item an id, or none")
    return list(zip(listed, ids, strict=True))


class SortedFeed(FollowedFeed):
    """Items at positions that the caller chooses. Ids are numbers by default: "1", "2", …

    A known id is edited, and moved to the new position.
    """

    async def append(self, item: object, *, id: str | None = None) -> str:
        """Put an item last and return its id."""
        return await self._put(item, id, LAST)

    async def prepend(self, item: object, *, id: str | None = None) -> str:
        """Put an item first and return its id."""
        return await self._put(item, id, FIRST)

    async def before(self, other: str, item: object, *, id: str | None = None) -> str:
        """Put an item before the item `other`; raises `Refused` (`unknown_neighbour`) if `other` does not exist."""
        return await self._put(item, id, ItemPosition("before", other))

    async def after(self, other: str, item: object, *, id: str | None = None) -> str:
        """Put an item after the item `other`; raises `Refused` (`unknown_neighbour`) if `other` does not exist."""
        return await self._put(item, id, ItemPosition("after", other))

    async def publish_many(self, items: Iterable[object], *, ids: Sequence[str] | None = None) -> list[str]:
        """Put any number of items last, in their order and in as few calls as possible, and return their ids."""
        encode = self._context.codec.encode
        publications = (Publication(encode(item), id) for item, id in with_ids(items, ids))
        return await publish_many(self._context, self.feed, publications)

    async def move(
        self, id: str, *, before: str | None = None, after: str | None = None, first: bool = False, last: bool = False
    ) -> bool:
        """Move an item to a position; False if it is there already, as next to itself.

        Raises `Refused`: `unknown_item`, or `unknown_neighbour` if the other item does not exist.
        """
        position = _position(before, after, first, last)
        store, instance = self._context.store, self._context.instance
        [answer] = await store.items.move(self.feed, [Move(id, position)], instance=instance)
        if answer.status == "unknown":
            raise unknown_item(self.feed, id)
        if answer.status == "unknown_neighbour":
            raise unknown_neighbour(self.feed, position.id or "")
        return answer.status == "moved"

    async def _put(self, item: object, id: str | None, position: ItemPosition) -> str:
        return await publish(self._context, self.feed, Publication(self._context.codec.encode(item), id, position))


def _position(before: str | None, after: str | None, first: bool, last: bool) -> ItemPosition:
    positions = [before is not None, after is not None, first, last]
    if sum(positions) != 1:
        raise Refused(
            "bad_position", f"a move goes to one position; found {sum(positions)}; give before, after, first or last"
        )
    if before is not None:
        return ItemPosition("before", before)
    if after is not None:
        return ItemPosition("after", after)
    return FIRST if first else LAST


async def publish(context: FeedContext, feed: FeedName, publication: Publication) -> str:
    """Publish one item and return its id; raises `Refused` if the store does not accept it."""
    [answer] = await context.store.items.publish(feed, [publication], instance=context.instance)
    if not answer.ok or answer.id is None:
        raise refusal(feed, publication, answer)
    return answer.id


async def publish_many(context: FeedContext, feed: FeedName, publications: Iterable[Publication]) -> list[str]:
    """Publish items in their order and return their ids.

    Raises `Refused` at the first item that the store does not accept. If the store stops answering, raises
    `OutcomeUnknown` with the published ids in `known`.
    """
    ids: list[str] = []
    for batch in batches(publications):
        try:
            answers = await context.store.items.publish(feed, batch, instance=context.instance)
        except UNANSWERED as error:
            if not ids and isinstance(error, StoreUnavailable):
                raise
            raise OutcomeUnknown(
                f"{len(ids):,} items were published and of {len(batch):,} it is not known: {error}",
                known=ids,
                unknown=[each.id for each in batch if each.id is not None],
            ) from error
        ids += [answer.id for answer in answers if answer.ok and answer.id is not None]
        for publication, answer in zip(batch, answers, strict=True):
            if not answer.ok:
                raise refusal(feed, publication, answer, len(ids))
    return ids


def batches(publications: Iterable[Publication]) -> Iterator[Sequence[Publication]]:
    """The publications in batches of at most one call's size."""
    batch: list[Publication] = []
    size = 0
    for each in publications:
        if batch and (len(batch) == BATCH_MAX or size + len(each.item) > PUBLISH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += len(each.item)
    if batch:
        yield batch


def refusal(feed: FeedName, publication: Publication, answer: Published, published: int = 0) -> Refused:
    """The error for an item that was not published."""
    match answer.status:
        case "unknown":
            refused = unknown_item(feed, publication.id or "")
        case "unknown_neighbour":
            refused = unknown_neighbour(feed, publication.position.id or "")
        case "full":
            message = f"{str(feed)!r} is full; retract or take items, or raise its items_max"
            refused = Refused(
                "full", message if not published else f"{published:,} items were published, then {message}"
            )
        case _:
            message = f"{str(feed)!r} holds an item {cut(publication.id or '')!r} already; put it under another id"
            refused = Refused("known_item", message)
    return refused


def unknown_item(feed: FeedName, id: str) -> Refused:
    """The refusal to change a missing item."""
    return Refused("unknown_item", f"{str(feed)!r} holds no item {cut(id)!r} (any more); publish it first")


def unknown_neighbour(feed: FeedName, id: str) -> Refused:
    """The refusal of a position next to a missing item."""
    return Refused(
        "unknown_neighbour", f"{str(feed)!r} holds no item {cut(id)!r} to stand next to (any more); choose another"
    )
