"""Requests and answers about feeds: items, positions and changes."""

from typing import Literal

from msgspec import UNSET, Struct

from headrace.model.errors import Refused
from headrace.model.feed import (
    LAST,
    Changed,
    ChangeEvent,
    FeedConfig,
    FeedCursor,
    FeedName,
    Item,
    ItemPosition,
    Move,
    Publication,
    Where,
)
from headrace.model.results import Changes, FeedState, ItemsSnapshot, Moved, Published, Retracted
from headrace.wire.content import ByteContent, JsonContent, read_content, write_content


class FeedAnswer(Struct, frozen=True, kw_only=True):
    """A feed with its configuration and counters; `cursor` is the end of its log."""

    feed: str
    config: FeedConfig
    cursor: str
    items: int
    total: int
    first_seq: int
    changes_bytes: int
    created_at_ms: int
    changed_at_ms: int

    @staticmethod
    def of(state: FeedState) -> "FeedAnswer":
        """A feed as the service answers it."""
        return FeedAnswer(
            feed=state.feed.name,
            config=state.config,
            cursor=str(state.cursor),
            items=state.items,
            total=state.total,
            first_seq=state.first_seq,
            changes_bytes=state.changes_bytes,
            created_at_ms=state.created_at_ms,
            changed_at_ms=state.changed_at_ms,
        )

    def state(self, tenant: str) -> FeedState:
        """The state of a tenant's feed."""
        return FeedState(
            FeedName(self.feed, tenant),
            self.config,
            FeedCursor.parse(self.cursor),
            self.items,
            self.total,
            self.first_seq,
            self.changes_bytes,
            self.created_at_ms,
            self.changed_at_ms,
        )


class FeedAnswers(Struct, frozen=True):
    """A page of feeds."""

    rows: list[FeedAnswer]
    cursor: str | None


class PositionBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The position of an item in a sorted feed."""

    where: Where = "last"
    id: str | None = None

    def position(self) -> ItemPosition:
        """The position."""
        return ItemPosition(self.where, self.id)


class PublicationBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """An item to publish."""

    id: str | None = None
    item: JsonContent = UNSET
    item_base64: ByteContent = UNSET
    position: PositionBody | None = None
    edit: bool = False

    def publication(self, *, packed: bool) -> Publication:
        """The publication; raises `Refused` for invalid values."""
        item = read_content("item", self.item, self.item_base64, packed=packed)
        if item is None:
            raise Refused("bad_item", "a publication needs an item; give item or item_base64")
        position = LAST if self.position is None else self.position.position()
        return Publication(item, self.id, position, self.edit)

    @staticmethod
    def of(publication: Publication) -> "PublicationBody":
        """A publication, for MessagePack."""
        where = publication.position
        return PublicationBody(
            id=publication.id,
            item_base64=publication.item,
            position=None if where == LAST else PositionBody(where.where, where.id),
            edit=publication.edit,
        )


class PublishBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Items to publish, at most 1,000."""

    items: list[PublicationBody]


class PublishAnswer(Struct, frozen=True):
    """The answers, in the order of the items."""

    results: list[Published]


class RetractAnswer(Struct, frozen=True):
    """The answers, in the order of the ids."""

    results: list[Retracted]


class MoveItem(Struct, frozen=True, forbid_unknown_fields=True):
    """An item and the position it goes to."""

    id: str
    position: PositionBody


class MoveBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Items to move, at most 1,000."""

    moves: list[MoveItem]

    def model(self) -> list[Move]:
        """The moves; raises `Refused` for invalid ones."""
        return [Move(each.id, each.position.position()) for each in self.moves]


class MoveAnswer(Struct, frozen=True):
    """The answers, in the order of the moves."""

    results: list[Moved]


class TakeBody(Struct, frozen=True, forbid_unknown_fields=True):
    """How many items to take, and how long to wait for the first."""

    limit: int = 1
    wait_ms: int = 0


class ItemAnswer(Struct, frozen=True, kw_only=True):
    """An item."""

    id: str
    at_ms: int
    item: JsonContent = UNSET
    item_base64: ByteContent = UNSET

    @staticmethod
    def of(item: Item, *, packed: bool) -> "ItemAnswer":
        """An item as the service answers it."""
        value, data = write_content(item.item, packed=packed)
        return ItemAnswer(id=item.id, at_ms=item.at_ms, item=value, item_base64=data)

    def model(self) -> Item:
        """The item, from MessagePack."""
        return Item(self.id, read_content("item", self.item, self.item_base64, packed=True) or b"", self.at_ms)


class ItemsAnswer(Struct, frozen=True):
    """Items that were taken."""

    items: list[ItemAnswer]


class FoundItems(Struct, frozen=True):
    """Items in the order of the ids asked for, null for an unknown one."""

    rows: list[ItemAnswer | None]


class ItemRows(Struct, frozen=True):
    """Items in the order of the feed, as of a position of its log."""

    rows: list[ItemAnswer]
    as_of: str | None
    cursor: str | None

    @staticmethod
    def of(page: ItemsSnapshot, cursor: str | None, *, packed: bool) -> "ItemRows":
        """A page as the service answers it."""
        as_of = None if page.as_of is None else str(page.as_of)
        return ItemRows([ItemAnswer.of(each, packed=packed) for each in page.rows], as_of, cursor)

    def model(self) -> ItemsSnapshot:
        """The page, from MessagePack."""
        as_of = None if self.as_of is None else FeedCursor.parse(self.as_of)
        return ItemsSnapshot([each.model() for each in self.rows], as_of, self.cursor)


class ChangeAnswer(Struct, frozen=True, kw_only=True):
    """One change of a feed."""

    seq: int
    epoch: int
    at_ms: int
    event: ChangeEvent
    instance: str
    id: str = ""
    item: JsonContent = UNSET
    item_base64: ByteContent = UNSET
    position: ItemPosition | None = None
    reason: Literal["count", "age"] | None = None

    @staticmethod
    def of(change: Changed, *, packed: bool) -> "ChangeAnswer":
        """A change as the service answers it; one without an item has no `item`."""
        value, data = write_content(change.item, packed=packed) if change.item else (UNSET, UNSET)
        return ChangeAnswer(
            seq=change.seq,
            epoch=change.epoch,
            at_ms=change.at_ms,
            event=change.event,
            instance=change.instance,
            id=change.id,
            item=value,
            item_base64=data,
            position=change.position,
            reason=change.reason,
        )

    def model(self) -> Changed:
        """The change, from MessagePack."""
        return Changed(
            seq=self.seq,
            epoch=self.epoch,
            at_ms=self.at_ms,
            event=self.event,
            instance=self.instance,
            id=self.id,
            item=read_content("item", self.item, self.item_base64, packed=True) or b"",
            position=self.position,
            reason=self.reason,
        )


class ChangesAnswer(Struct, frozen=True):
    """Changes after a cursor, oldest first."""

    status: Literal["kept", "gap", "gone"]
    rows: list[ChangeAnswer]
    cursor: str | None
    more: bool

    @staticmethod
    def of(changes: Changes, *, packed: bool) -> "ChangesAnswer":
        """Changes as the service answers them."""
        cursor = None if changes.cursor is None else str(changes.cursor)
        rows = [ChangeAnswer.of(each, packed=packed) for each in changes.rows]
        return ChangesAnswer(changes.status, rows, cursor, changes.more)

    def model(self) -> Changes:
        """The changes, from MessagePack."""
        cursor = None if self.cursor is None else FeedCursor.parse(self.cursor)
        return Changes(self.status, [each.model() for each in self.rows], cursor, self.more)


class ChangedBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Waits until a feed may have changed."""

    after: str | None = None
    timeout_ms: int


class ChangedAnswer(Struct, frozen=True):
    """Whether it may have."""

    changed: bool


class SweepAnswer(Struct, frozen=True):
    """The number of evicted items and dropped changes."""

    swept: int
