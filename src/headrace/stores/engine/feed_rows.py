"""The rows of one feed as transitions see them: plain reads and writes inside one atomic step."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from headrace.model.feed import Changed, FeedConfig, FeedName


class ItemRow(Struct, frozen=True, gc=False):
    """An item and its rank; in a directory the rank is the name of the feed."""

    id: str
    item: bytes
    rank: str
    at_ms: int


class FeedCounters:
    """The counters of a feed."""

    __slots__ = (
        "at_ms",
        "birth",
        "changes_bytes",
        "created_at_ms",
        "epoch",
        "first_seq",
        "items",
        "number",
        "oldest_at_ms",
        "seq",
        "seq_epoch",
        "total",
    )

    def __init__(
        self,
        birth: str,
        created_at_ms: int,
        epoch: int = 1,
        seq: int = 0,
        seq_epoch: int = 1,
        at_ms: int = 0,
        first_seq: int = 1,
        oldest_at_ms: int = 0,
        changes_bytes: int = 0,
        items: int = 0,
        total: int = 0,
        number: int = 0,
    ) -> None:
        self.birth = birth
        """Distinguishes it from an earlier feed of the same name."""
        self.created_at_ms = created_at_ms
        self.epoch = epoch
        self.seq = seq
        """The last change."""
        self.seq_epoch = seq_epoch
        """The epoch of the last change."""
        self.at_ms = at_ms
        """The latest instant of any write; it never goes back."""
        self.first_seq = first_seq
        self.oldest_at_ms = oldest_at_ms
        """The instant of the oldest change in the log, 0 when it is empty."""
        self.changes_bytes = changes_bytes
        self.items = items
        self.total = total
        self.number = number
        """The highest number that is or was an id."""


class FeedRows(Protocol):
    """The rows of one feed in a driver. Ranks and ids are compared by code point."""

    config: FeedConfig
    """Assign to it to store a new one."""

    @property
    def feed(self) -> FeedName:
        """Which feed."""

    @property
    def counters(self) -> FeedCounters:
        """Its counters, to be changed in place; the driver counts none of them, `items` included."""

    def load(self, ids: Sequence[str]) -> None:
        """A hint that these ids come next."""

    def row(self, id: str) -> ItemRow | None:
        """The item of an id."""

    def put(self, row: ItemRow) -> None:
        """Insert an item, or replace the one of its id."""

    def drop(self, row: ItemRow) -> None:
        """Drop an item."""

    def first(self, limit: int, after_rank: str = "", bytes_max: int | None = None) -> list[ItemRow]:
        """Items with `rank > after_rank`, by rank, until `limit` or `bytes_max` of ids and items is reached."""

    def last(self, limit: int, before_rank: str | None = None) -> list[ItemRow]:
        """Items with `rank < before_rank` (all for None), backwards by rank, at most `limit`."""

    def append(self, changes: Sequence[Changed]) -> None:
        """Append changes to the log."""

    def change(self, seq: int) -> Changed | None:
        """One change in the log."""

    def changes(self, after: int, limit: int, bytes_max: int) -> list[Changed]:
        """Changes with `seq > after`, by that, until `limit` or `bytes_max` of their sizes is reached."""

    def oldest_changes(self, limit: int) -> Iterable[tuple[int, int, int]]:
        """The oldest changes: seq, at_ms and size of each. The caller may read only few of them."""

    def drop_changes(self, upto: int) -> None:
        """Drop changes with `seq <= upto`."""
