"""What subscribers share: changes and items made ready once for all who read them alike."""

from collections.abc import Callable
from typing import Any

from headrace.client.codec import Codec
from headrace.feeds.change import Change, live, of_item, of_log
from headrace.model.feed import Changed, FeedCursor, FeedName
from headrace.model.results import Items


class Told:
    """Makes its changes once per codec and type, when the first subscriber asks."""

    def __init__(self, make: Callable[[Codec, Any], list[Change]]) -> None:
        self._make = make
        self._made: dict[tuple[Codec, Any], list[Change]] = {}

    def changes(self, codec: Codec, type: Any) -> list[Change]:
        """All of them; to be looked at only, they are shared."""
        key = codec, type
        try:
            made = self._made.get(key)
            if made is None:
                made = self._made[key] = self._make(codec, type)
        except TypeError:  # a codec or a type that cannot be a key
            return self._make(codec, type)
        return made


class Page(Told):
    """Changes of a log without a hole, from behind `after` up to `end`."""

    def __init__(self, feed: FeedName, after: FeedCursor, rows: list[Changed], end: FeedCursor) -> None:
        super().__init__(lambda codec, type: [of_log(feed, end.birth, row, codec, type) for row in rows])
        self.after = after
        self.rows = rows
        self.end = end

    @property
    def size(self) -> int:
        """The bytes it counts for."""
        return sum(row.size for row in self.rows)

    def follows(self, cursor: FeedCursor) -> bool:
        """Whether a reader at `cursor`, in the midst of this page, has seen what the page holds there."""
        place = cursor.seq - self.after.seq
        epoch = self.rows[place - 1].epoch if place else self.after.epoch
        return cursor.epoch == epoch or cursor.seq == 0  # before the first change there was nothing to see


class Present(Told):
    """All items that are there, and that these are all."""

    def __init__(self, feed: FeedName, items: Items) -> None:
        self.as_of = items.as_of
        super().__init__(
            lambda codec, type: [*(of_item(feed, item, codec, type) for item in items.rows), live(feed, items.as_of)]
        )
