"""A change of a feed, as subscriptions yield it."""

from typing import Any

from headrace.client.codec import JSON, Codec
from headrace.model.feed import Changed, FeedConfig, FeedCursor, FeedName, Item, ItemPosition

_UNREAD = object()
_BARE = ("retracted", "deleted")


class Change:
    """One change of a feed.

    `event` is `present` (an existing item), `live` (all existing items have come), `published`, `edited`, `retracted`,
    `moved`, `configured`, `created`, `deleted`, `gap` (changes were lost: drop your state, all items follow) or
    `heartbeat` (no change for a while); from a job queue, the name of the journal's event.

    `id` is that of the item, in a directory the name of a feed, from a job queue the id of a job. `position` is where
    an item of a sorted feed was put. `reason` is why the store evicted an item: `count` or `age`; from a job queue it
    is the journal's. `instance` made the change, at `at_ms` by the store's clock (of a `present` item, its last
    write). `seq` is its number in the log. Both are 0 for changes that are not in a log.

    `cursor` is the text to resume after this change: `feed.subscribe(cursor=change.cursor)`. It is None while the
    existing items come: a subscription that stops there starts over.

    Subscribers of one process share these objects: do not change them.
    """

    __slots__ = (
        "_codec",
        "_item",
        "_type",
        "at_ms",
        "cursor",
        "event",
        "feed",
        "id",
        "instance",
        "position",
        "raw",
        "reason",
        "seq",
    )

    def __init__(
        self,
        feed: str,
        event: str,
        *,
        id: str = "",
        raw: bytes | None = None,
        codec: Codec = JSON,
        type: Any = Any,
        item: object = _UNREAD,
        position: ItemPosition | None = None,
        reason: str | None = None,
        instance: str | None = None,
        at_ms: int = 0,
        seq: int = 0,
        cursor: str | None = None,
    ) -> None:
        self.feed = feed
        self.event = event
        self.id = id
        self.raw = raw
        """The item as the store keeps it; None if the change has none."""
        self.position = position
        self.reason = reason
        self.instance = instance
        self.at_ms = at_ms
        self.seq = seq
        self.cursor = cursor
        self._codec = codec
        self._type = type
        self._item = None if raw is None and item is _UNREAD else item

    @property
    def item(self) -> Any:
        """The item, decoded on first use; None if the change has none.

        Raises `Refused` (`bad_payload`) if it is not of the subscription's type; `raw` has its bytes, and the
        subscription goes on.
        """
        if self._item is _UNREAD:
            assert self.raw is not None  # else the item is None
            self._item = self._codec.decode(self.raw, self._type)
        return self._item

    def __repr__(self) -> str:
        about = f" {self.id!r}" if self.id else ""
        return f"<Change {self.event}{about} in {self.feed!r}: {self.cursor}>"

    def __reduce__(self) -> tuple[Any, ...]:
        known = {} if self._item is _UNREAD else {"item": self._item}
        fields = {name: getattr(self, name) for name in _FIELDS}
        return _rebuild, (fields | {"codec": self._codec, "type": self._type} | known,)


_FIELDS = ("feed", "event", "id", "raw", "position", "reason", "instance", "at_ms", "seq", "cursor")


def _rebuild(fields: dict[str, Any]) -> Change:
    return Change(**fields)


def of_log(feed: FeedName, birth: str, changed: Changed, codec: Codec, type: Any) -> Change:
    """A change in the log."""
    is_config = changed.event in ("created", "configured")
    return Change(
        feed.name,
        changed.event,
        id=changed.id,
        raw=None if changed.event in _BARE else changed.item,
        codec=JSON if is_config else codec,
        type=FeedConfig if is_config else type,
        position=changed.position,
        reason=changed.reason,
        instance=changed.instance,
        at_ms=changed.at_ms,
        seq=changed.seq,
        cursor=f"{birth}-{changed.epoch}-{changed.seq}",
    )


def of_item(feed: FeedName, item: Item, codec: Codec, type: Any) -> Change:
    """An existing item."""
    if feed.is_directory:
        codec, type = JSON, FeedConfig
    return Change(feed.name, "present", id=item.id, raw=item.item, codec=codec, type=type, at_ms=item.at_ms)


def live(feed: FeedName, as_of: FeedCursor | None) -> Change:
    """The end of the existing items."""
    if as_of is None:
        return Change(feed.name, "live")
    return Change(feed.name, "live", seq=as_of.seq, cursor=str(as_of))
