"""Feeds: names, types and configuration, items and their positions, and the log of changes."""

import re
from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import replace

from headrace.model.errors import Refused
from headrace.model.limits import (
    CURSOR_CHARS_MAX,
    DURATION_MS_MAX,
    FEED_NUMBER_MAX,
    ID_CHARS_MAX,
    INSTANCE_CHARS_MAX,
    ITEM_BYTES_MAX,
    QUEUE_CHARS_MAX,
    RETENTION_MAX,
)
from headrace.model.names import DEFAULT_TENANT, check_tenant
from headrace.model.validate import bounded_repr, check_bool, check_bytes, check_int, check_storable, check_text

FeedType = Literal["feed", "sorted", "queue"]
FEED_TYPES: tuple[str, ...] = get_args(FeedType)
ChangeEvent = Literal["created", "configured", "deleted", "published", "edited", "retracted", "moved"]
CHANGE_EVENTS: tuple[str, ...] = get_args(ChangeEvent)
Where = Literal["first", "last", "before", "after"]

DIRECTORY = "*"
"""The name of a tenant's directory: a feed that may only be read, whose items are the tenant's feeds."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_DAY_MS = 24 * 3_600_000


class FeedName(Struct, frozen=True, gc=False, order=True):
    """A feed of a tenant. Every store call carries this value whole."""

    name: str
    tenant: str = DEFAULT_TENANT

    def __post_init__(self) -> None:
        check_tenant(self.tenant)
        name: object = self.name
        if not isinstance(name, str) or not (_NAME.fullmatch(name) or name == DIRECTORY):
            raise Refused(
                "bad_feed",
                f"feed name {bounded_repr(name)} is not a name; start with a letter or digit, go on with letters,"
                f" digits, '.', '-' and '_' ({QUEUE_CHARS_MAX} at most)",
            )

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"

    @property
    def is_directory(self) -> bool:
        """Whether this names the directory of the tenant's feeds, which may only be read."""
        return self.name == DIRECTORY

    @property
    def directory(self) -> "FeedName":
        """The directory of the tenant: its items are the tenant's feeds by name, each with its configuration."""
        return FeedName(DIRECTORY, self.tenant)


class FeedConfig(Struct, frozen=True):
    """The type of a feed, fixed at its creation, and its retention."""

    type: FeedType = "feed"
    version: int = 0
    """Rises by one with every change of the configuration."""
    items_max: int = 10_000
    """Items it holds. Beyond that a feed evicts its oldest; a sorted feed and an item queue refuse `full`."""
    items_keep_ms: int = 0
    """Items of a feed that were published longer ago than this are evicted; 0 keeps them."""
    changes_keep_max: int = 10_000
    changes_keep_ms: int = _DAY_MS
    changes_bytes_max: int = 64 * 1024 * 1024
    """Retention of the log, for readers that were offline: by count, age and bytes of ids and items."""

    def changed(self, changes: Mapping[str, object]) -> "FeedConfig":
        """The next version with `changes` (field to value); refuses unknown fields and values out of bounds."""
        for field, value in changes.items():
            _check(self.type, field, value)
        return replace(self, **{**changes, "version": self.version + 1})


_BOUNDS = {
    "items_max": (1, RETENTION_MAX),
    "items_keep_ms": (0, DURATION_MS_MAX),
    "changes_keep_max": (1, RETENTION_MAX),
    "changes_keep_ms": (1, DURATION_MS_MAX),
    "changes_bytes_max": (1024 * 1024, 2**40),
}
FEED_SETTABLE: tuple[str, ...] = tuple(_BOUNDS)
"""The fields that `create` and `configure` take."""


def first_feed_config(type: FeedType, changes: Mapping[str, object] | None = None) -> FeedConfig:
    """The configuration of a new feed; only type `feed` has a bound on its items by default."""
    if type not in FEED_TYPES:
        raise Refused(
            "bad_type", f"there is no feed of type {bounded_repr(type)}; known types: {', '.join(FEED_TYPES)}"
        )
    first = FeedConfig() if type == "feed" else FeedConfig(type, items_max=RETENTION_MAX)
    return replace(first.changed(changes or {}), version=0)


DIRECTORY_CONFIG = FeedConfig(items_max=RETENTION_MAX)


def _check(type: FeedType, field: str, value: object) -> None:
    if field == "type":
        raise Refused("bad_config", "the type of a feed cannot be changed; delete the feed and create it anew")
    if field not in _BOUNDS:
        raise Refused(
            "bad_config", f"feeds have no setting {bounded_repr(field)}; known settings: {', '.join(FEED_SETTABLE)}"
        )
    check_int(field, value, *_BOUNDS[field])
    if field == "items_keep_ms" and value and type != "feed":
        raise Refused("bad_config", f"items of a {type} feed have no age; only a feed of type 'feed' evicts by time")


class ItemPosition(Struct, frozen=True, gc=False):
    """The position of an item in a sorted feed: at an end, or next to another item. In an item queue, `first` is
    next."""

    where: Where = "last"
    id: str | None = None

    def __post_init__(self) -> None:
        if self.where not in get_args(Where):
            raise Refused(
                "bad_position", f"there is no position {bounded_repr(self.where)}; use {', '.join(get_args(Where))}"
            )
        if (self.where in ("before", "after")) != (self.id is not None):
            raise Refused("bad_position", "the positions 'before' and 'after' name an item, 'first' and 'last' do not")
        if self.id is not None:
            check_item_id(self.id)


def check_position(position: object) -> None:
    """Refuse a value other than a position."""
    if type(position) is not ItemPosition:
        raise Refused(
            "bad_position",
            f"{bounded_repr(position)} is not an ItemPosition; use FIRST, LAST or ItemPosition('before', id)",
        )


FIRST, LAST = ItemPosition("first"), ItemPosition("last")


class Publication(Struct, frozen=True, gc=False):
    """An item to publish.

    Without an id a sorted feed draws the next number; the other types need one. With `edit`, only a known item is
    replaced, and in a sorted feed it keeps its position.
    """

    item: bytes
    id: str | None = None
    position: ItemPosition = LAST
    edit: bool = False

    def __post_init__(self) -> None:
        check_bytes("item", self.item, ITEM_BYTES_MAX, "publish")
        if self.id is not None:
            check_item_id(self.id)
        check_position(self.position)
        check_bool("edit", self.edit)
        if self.edit and (self.id is None or self.position != LAST):
            raise Refused("bad_position", "an edit names an item and no position; move the item to put it elsewhere")


class Move(Struct, frozen=True, gc=False):
    """An item of a sorted feed and the position it goes to."""

    id: str
    position: ItemPosition

    def __post_init__(self) -> None:
        check_item_id(self.id)
        check_position(self.position)


class Item(Struct, frozen=True, gc=False):
    """An item as it is kept; `at_ms` is when it was last published or edited."""

    id: str
    item: bytes
    at_ms: int


class FeedCursor(Struct, frozen=True, gc=False):
    """The position of a reader in the log: everything up to `seq`, written in `epoch`, of the feed created as
    `birth`."""

    birth: str
    epoch: int
    seq: int

    def __str__(self) -> str:
        return f"{self.birth}-{self.epoch}-{self.seq}"

    @staticmethod
    def parse(text: object) -> "FeedCursor":
        """Parse the text of a cursor."""
        found = _CURSOR.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            raise Refused(
                "bad_cursor", f"{bounded_repr(text)} is not a cursor that a subscription gave; start without one"
            )
        return FeedCursor(found[1], int(found[2]), int(found[3]))


_CURSOR = re.compile(r"(\d{1,15}\.\d{1,15})-(\d{1,15})-(\d{1,15})", re.ASCII)


class Changed(Struct, frozen=True, gc=False, kw_only=True):
    """One change as the log of a feed keeps it.

    `published` and `edited` carry the item and, in a sorted feed, `published` and `moved` the position. `moved` carries
    the item too. `retracted` has a reason: None for a call, `count` or `age` for an eviction. `created` and
    `configured` carry the configuration as JSON in `item`; in a tenant's directory `id` is the name of the feed, and
    `deleted` is kept there.
    """

    seq: int
    epoch: int
    at_ms: int
    event: ChangeEvent
    instance: str
    """The process or program behind the change."""
    id: str = ""
    item: bytes = b""
    position: ItemPosition | None = None
    reason: Literal["count", "age"] | None = None

    @property
    def size(self) -> int:
        """Its size in the log, in bytes."""
        return len(self.id.encode()) + len(self.item)


def check_cursor(after: object) -> None:
    """Refuse a value other than a cursor, or None for the beginning."""
    if after is None:
        return
    if type(after) is not FeedCursor:
        raise Refused("bad_cursor", f"{bounded_repr(after)} is not a FeedCursor; parse the text of one")
    check_int("epoch", after.epoch, 0, FEED_NUMBER_MAX)
    check_int("seq", after.seq, 0, FEED_NUMBER_MAX)
    birth: object = after.birth
    if not isinstance(birth, str) or len(birth) > CURSOR_CHARS_MAX:
        raise Refused("bad_cursor", f"a cursor tells the birth of its feed; found {bounded_repr(birth)}")
    check_storable("cursor", birth)


def check_item_id(id: object) -> None:
    """Refuse a value other than text of 1 to 256 characters."""
    if not isinstance(id, str):
        raise Refused("bad_id", f"the id of an item must be text; found {type(id).__name__} {bounded_repr(id)}")
    if not 1 <= len(id) <= ID_CHARS_MAX:
        raise Refused("bad_id", f"the id of an item must have 1 to {ID_CHARS_MAX} characters; found {len(id)}")
    check_storable("id", id)


def check_instance(instance: object) -> None:
    """Refuse a value that is not the name of an instance."""
    check_text("instance", instance, INSTANCE_CHARS_MAX)
    check_storable("instance", str(instance))


def check_writable(feed: FeedName) -> None:
    """Refuse to write to a directory."""
    if feed.is_directory:
        raise Refused("read_only", "the feed directory is read-only; create or delete feeds instead")
