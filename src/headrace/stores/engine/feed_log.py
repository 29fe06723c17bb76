"""The log of a feed: what changed, under numbers without a hole, for as long as its configuration says."""

from typing import Literal

from headrace.model.feed import Changed, ChangeEvent, FeedCursor, FeedName, ItemPosition
from headrace.model.limits import CHANGES_SLACK, CHANGES_TRIM_PER_CALL_MAX
from headrace.stores.engine.feed_rows import FeedRows
from headrace.stores.engine.rows import Tx
from headrace.stores.shared.validate import unknown_feed


class FeedLog:
    """Notes the changes of one call to a feed, and writes them when it is closed."""

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
        """Something changes now, whether it is noted or not; a call that changes nothing leaves no trace."""
        self.rows.counters.at_ms = self.at_ms

    def close(self) -> bool:
        """Write what was noted and drop what is beyond the retention; whether anything was noted."""
        if self._noted:
            counters = self.rows.counters
            if counters.first_seq == self._noted[0].seq:
                counters.oldest_at_ms = self.at_ms
            counters.changes_bytes += sum(each.size for each in self._noted)
            self.rows.append(self._noted)
            trim(self.rows, self.at_ms)
        return bool(self._noted)


def trim(rows: FeedRows, at_ms: int) -> int:
    """Drop changes beyond the retention from the front of the log, a bounded number; says how many."""
    counters, config = rows.counters, rows.config
    surplus = counters.seq - counters.first_seq + 1 - config.changes_keep_max
    if surplus <= config.changes_keep_max // CHANGES_SLACK:
        surplus = 0
    over_ms = at_ms - config.changes_keep_ms
    is_aged = counters.first_seq <= counters.seq and counters.oldest_at_ms <= over_ms
    if surplus <= 0 and counters.changes_bytes <= config.changes_bytes_max and not is_aged:
        return 0
    dropped, upto = 0, 0
    # One more than may go, to know the age of the first that stays.
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
    """The cursor of a reader who has everything."""
    counters = rows.counters
    return FeedCursor(counters.birth, counters.seq_epoch, counters.seq)


def status_of(rows: FeedRows, after: FeedCursor) -> Literal["kept", "gap", "gone"]:
    """Whether a reader at `after` can go on from there."""
    counters = rows.counters
    if counters.birth != after.birth:
        return "gone"
    if not counters.first_seq - 1 <= after.seq <= counters.seq:
        return "gap"
    if after.seq >= counters.first_seq:
        seen = rows.change(after.seq)
        return "kept" if seen is not None and seen.epoch == after.epoch else "gap"
    # What it has seen last was dropped, so it cannot be compared; before the first change there was nothing to lose.
    return "kept" if after.seq == 0 or after.epoch == counters.epoch else "gap"


def known_feed(tx: Tx, feed: FeedName) -> FeedRows:
    """The rows of a feed; refuses an unknown one."""
    rows = tx.feed(feed)
    if rows is None:
        raise unknown_feed(feed)
    return rows
