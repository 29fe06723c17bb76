"""Answers of a store about feeds, item by item. An expected refusal is an answer; nothing was changed then."""

from typing import Literal

from msgspec import Struct

from headrace.model.feed import Changed, FeedConfig, FeedCursor, FeedName, Item


class Published(Struct, frozen=True, gc=False):
    """What became of one publication.

    `published`: a new item. `edited`: the known item was replaced. Refusals: `known` (a plain queue holds this id),
    `unknown` (an edit of an item that is not there), `unknown_neighbour` (the place is next to an item that is not
    there), `full` (`items_max` of a sorted feed or a plain queue, or no number is left to draw).
    """

    id: str | None
    """The id, also when the store drew it; None when it was to be drawn and the publication was refused."""
    status: Literal["published", "edited", "known", "unknown", "unknown_neighbour", "full"]

    @property
    def ok(self) -> bool:
        """Whether the item is in the feed now."""
        return self.status in ("published", "edited")


class Retracted(Struct, frozen=True, gc=False):
    """Whether an item was there to retract."""

    id: str
    status: Literal["retracted", "not_found"]


class Moved(Struct, frozen=True, gc=False):
    """What became of one move; `unchanged` when the item stands there already."""

    id: str
    status: Literal["moved", "unchanged", "unknown", "unknown_neighbour"]


class Items(Struct, frozen=True):
    """Items in the order of the feed, as they were when its log stood at `as_of`; None when there is no such feed."""

    rows: list[Item]
    as_of: FeedCursor | None
    cursor: str | None = None
    """Continues a list; None at its end."""


class Changes(Struct, frozen=True):
    """Changes behind a cursor, oldest first.

    `kept`: these are the next ones, without a hole. `gap`: some were dropped or lost, so none are given; look at the
    items anew. `gone`: there is no such feed, or another one under the same name.
    """

    status: Literal["kept", "gap", "gone"]
    rows: list[Changed]
    cursor: FeedCursor | None
    """Behind the last of the rows; where the log ends when there is a gap; None when there is no feed at all."""
    more: bool = False
    """Whether the page ended before the log did."""


class FeedState(Struct, frozen=True):
    """What a feed is and how it stands."""

    feed: FeedName
    config: FeedConfig
    cursor: FeedCursor
    """The end of its log."""
    items: int
    total: int
    """Publications and edits, ever."""
    first_seq: int
    """The oldest change that is kept; one more than the cursor's when none is."""
    changes_bytes: int
    created_at_ms: int
    changed_at_ms: int
