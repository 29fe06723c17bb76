"""The log of a feed: its changes under gap-free numbers, and their retention."""

from typing import Literal

from headrace.model.feed import Changed, ChangeEvent, FeedCursor, FeedName, ItemPosition
from headrace.model.limits import CHANGES_SLACK, CHANGES_TRIM_PER_CALL_MAX
from headrace.stores.engine.feed_rows import FeedRows
from headrace.stores.engine.rows import Tx
from headrace.stores.shared.validate import unknown_feed


class FeedLog:
    """Collects the changes of one call to a feed, and writes them on `close`."""

    def __init__(self, rows: FeedRows, instance: str, now_ms: int) -> None:
        self.rows = rows
        self._instance = instance
        self._noted: list[Changed] = []
        self.at_ms = max(rows.counters.at_ms, now_ms)

    def note(
        self,
        event: ChangeEvent,
        id: str = "",
        item: bytes = b"",
        position: ItemPosition | None = None,
        reason: Literal["count", "age"] | None = None,
    ) -> int:
        """Note a change and return its number."""
        counters = self.rows.counters
        self.touch()
        counters.seq += 1
        counters.seq_epoch = counters.epoch
        self._noted.append(
            Changed(
                seq=counters.seq,
                epoch=counters.epoch,
                at_ms=self.at_ms,
                event=event,
                instance=self._instance,
                id=id,
                item=item,
                position=position,
                reason=reason,
            )
        )
        return counters.seq

    def touch(self) -> None:
        """Set the time of the last write; a call that changes nothing leaves it."""
        self.rows.counters.at_ms = self.at_ms

    def close(self) -> bool:
        """Write the changes and trim the log; returns whether there were changes."""
        if self._noted:
            counters = self.rows.counters
            if counters.first_seq == self._noted[0].seq:
                counters.oldest_at_ms = self.at_ms
            counters.changes_bytes += sum(each.size for each in self._noted)
            self.rows.append(self._noted)
            trim(self.rows, self.at_ms)
        return bool(self._noted)


def trim(rows: FeedRows, at_ms: int) -> int:
    """Drop changes beyond the retention from the front of the log, a bounded number; returns how many."""
    counters, config = rows.counters, rows.config
    surplus = counters.seq - counters.first_seq + 1 - config.changes_keep_max
    if surplus <= config.changes_keep_max // CHANGES_SLACK:
        surplus = 0
    over_ms = at_ms - config.changes_keep_ms
    is_aged = counters.first_seq <= counters.seq and counters.oldest_at_ms <= over_ms
    if surplus <= 0 and counters.changes_bytes <= config.changes_bytes_max and not is_aged:
        return 0
    dropped, upto = 0, 0
    # One more than may be dropped, for the age of the first one kept.
    for seq, change_at_ms, size in rows.oldest_changes(CHANGES_TRIM_PER_CALL_MAX + 1):
        is_over = dropped < surplus or counters.changes_bytes > config.changes_bytes_max or change_at_ms <= over_ms
        if not is_over or dropped == CHANGES_TRIM_PER_CALL_MAX:
            counters.oldest_at_ms = change_at_ms
            break
        upto, dropped, counters.changes_bytes = seq, dropped + 1, counters.changes_bytes - size
    else:
        counters.oldest_at_ms = 0
    if dropped:
        counters.first_seq = upto + 1
        rows.drop_changes(upto)
    return dropped


def end_of(rows: FeedRows) -> FeedCursor:
    """The cursor at the end of the log."""
    counters = rows.counters
    return FeedCursor(counters.birth, counters.seq_epoch, counters.seq)


def status_of(rows: FeedRows, after: FeedCursor) -> Literal["kept", "gap", "gone"]:
    """Whether a reader at `after` can continue from there."""
    counters = rows.counters
    if counters.birth != after.birth:
        return "gone"
    if not counters.first_seq - 1 <= after.seq <= counters.seq:
        return "gap"
    if after.seq >= counters.first_seq:
        seen = rows.change(after.seq)
        return "kept" if seen is not None and seen.epoch == after.epoch else "gap"
    # The last change it has read is dropped, so its epoch cannot be compared; a reader at 0 has read none.
    return "kept" if after.seq == 0 or after.epoch == counters.epoch else "gap"


def known_feed(tx: Tx, feed: FeedName) -> FeedRows:
    """The rows of a feed; refuses an unknown one."""
    rows = tx.feed(feed)
    if rows is None:
        raise unknown_feed(feed)
    return rows
