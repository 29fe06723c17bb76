"""The log of a feed in PostgreSQL: changes are collected while the step lasts, and dropped from the front."""

from collections.abc import Iterator, Sequence

from headrace.model.feed import Changed
from headrace.stores.feed_packing import change_columns, change_of
from headrace.stores.postgres.arrays import blobs, numbers
from headrace.stores.postgres.link import Cursor, Link
from headrace.stores.transitions.feed_rows import FeedHead

FRONT = 64
"""Changes at the front that are looked at in one go when nobody knows how many are over; then twice as many."""

Front = tuple[int, int, int]
"""What retention has to know of a change: seq, at_ms and size."""


class FeedLog:
    """Changes under their seq."""

    def __init__(self, link: Link, feed_id: int, head: FeedHead) -> None:
        self._link = link
        self._feed_id = feed_id
        self._stored_first = head.first_seq
        self._stored_last = head.seq
        self._appended: list[Changed] = []
        self._dropped_seq = 0
        self._front: list[Front] = []

    def append(self, changes: Sequence[Changed]) -> None:
        """Keep changes."""
        self._appended += changes

    def oldest(self, limit: int) -> Iterator[Front]:
        """The first changes, asked for as far as they are wanted."""
        given = 0
        while given < limit and self._first_seq() + given <= self._stored_last:
            if len(self._front) <= given:
                wanted = min(max(FRONT, given), limit - given)
                self.learn_front(self.ask_front(wanted))
            if len(self._front) <= given:
                return  # the log has a hole, which is for those who look after it
            yield self._front[given]
            given += 1
        for change in self._appended[: limit - given]:
            yield change.seq, change.at_ms, change.size

    def _first_seq(self) -> int:
        return max(self._stored_first, self._dropped_seq + 1)

    def ask_front(self, limit: int) -> Cursor:
        """Ask for the changes at the front that are not known yet."""
        return self._link.run("feed_change_front", self._feed_id, self._first_seq() + len(self._front), limit)

    def learn_front(self, found: Cursor) -> None:
        """Keep what `ask_front` has found."""
        self._front += found.fetchall()

    def drop(self, upto: int) -> None:
        """Drop changes up to a seq."""
        self._dropped_seq = upto
        self._front = [each for each in self._front if each[0] > upto]
        self._appended = [change for change in self._appended if change.seq > upto]

    def read(self, after: int, limit: int, bytes_max: int) -> list[Changed]:
        """Changes behind a seq."""
        with self._link.together():
            self.flush()
            found = self._link.run("feed_change_read", self._feed_id, after, limit, bytes_max)
        return [change_of(columns) for columns in found.fetchall()]

    def flush(self) -> None:
        """Write what was appended and drop what is over; all in one go inside `together`."""
        if self._dropped_seq >= self._stored_first:
            upto = min(self._dropped_seq, self._stored_last)
            if upto >= self._stored_first:
                self._link.run("feed_change_drop", self._feed_id, self._stored_first, upto)
            self._stored_first = self._dropped_seq + 1
        if self._appended:
            seqs, times, ids, abouts, items = zip(*map(change_columns, self._appended), strict=True)
            columns = numbers(seqs), numbers(times), blobs(ids), blobs(abouts), blobs(items)
            self._link.run("feed_change_write", self._feed_id, *columns)
            self._stored_last = self._appended[-1].seq
            self._appended = []
