"""What a step knows of the order of a feed: runs of items with nothing between them, to ask for none twice."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

START = ""
"""Stands before the first item: every rank is greater."""
END = "~"
"""Stands behind the last item: no sign of a rank or of a feed's name is as great."""


class Order:
    """Ranks with the ids that have them. Of some it is known that the next one in the feed is the next one here."""

    def __init__(self) -> None:
        self._ranks: list[str] = [START, END]
        self._ids: dict[str, str] = {}
        self._joined: set[str] = set()

    def learn(self, run: Sequence[tuple[str, str]], after: str | None = None, before: str | None = None) -> None:
        """Take over what the server said: these ranks and ids follow each other, behind one place and before another;
        None where something else may stand there."""
        for rank, id in run:
            if rank not in self._ids:
                insort(self._ranks, rank)
            self._ids[rank] = id
        places = [rank for rank, _ in run]
        if after is not None and self._is_known(after):
            places.insert(0, after)
        if before is not None and self._is_known(before):
            places.append(before)
        self._joined.update(places[:-1])

    def _is_known(self, place: str) -> bool:
        return place in self._ids or place in (START, END)

    def put(self, rank: str, id: str) -> None:
        """An item comes to a place; what was joined there stays so."""
        if rank not in self._ids:
            place = bisect_left(self._ranks, rank)
            if self._ranks[place - 1] in self._joined:
                self._joined.add(rank)
            self._ranks.insert(place, rank)
        self._ids[rank] = id

    def drop(self, rank: str) -> None:
        """An item leaves its place."""
        if self._ids.pop(rank, None) is None:
            return
        place = bisect_left(self._ranks, rank)
        del self._ranks[place]
        if rank in self._joined:
            self._joined.discard(rank)
        else:
            self._joined.discard(self._ranks[place - 1])

    def first(self, limit: int, after: str) -> list[str] | None:
        """The ids behind a place, None when not all of them are known."""
        place = bisect_right(self._ranks, after) - 1
        found: list[str] = []
        while len(found) < limit:
            if self._ranks[place] not in self._joined:
                return None
            place += 1
            if self._ranks[place] == END:
                break
            found.append(self._ids[self._ranks[place]])
        return found

    def last(self, limit: int, before: str) -> list[str] | None:
        """The ids before a place, backwards; None when not all of them are known."""
        place = bisect_left(self._ranks, before) - 1
        found: list[str] = []
        while len(found) < limit:
            if self._ranks[place] not in self._joined:
                return None
            if self._ranks[place] == START:
                break
            found.append(self._ids[self._ranks[place]])
            place -= 1
        return found
