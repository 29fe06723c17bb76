"""Those who wait for a feed to change: what they look at before they sleep."""

from headrace.model.feed import FeedCursor, FeedName, check_cursor
from headrace.model.limits import DURATION_MS_MAX
from headrace.model.validate import check_int
from headrace.stores.transitions.changes import end_of
from headrace.stores.transitions.rows import Tx


def check_changed(feed: FeedName, after: object, timeout_ms: object) -> FeedName:
    """Refuse a wait that can never be right; returns the name to watch."""
    check_cursor(after)
    check_int("timeout_ms", timeout_ms, 0, DURATION_MS_MAX)
    return feed


def has_changed(tx: Tx, feed: FeedName, after: FeedCursor | None) -> bool:
    """Whether there is something for a reader at `after`, or for who wants items of a plain queue."""
    rows = tx.feed(feed)
    if rows is None:
        return after is not None
    if rows.config.type == "plain" and rows.head.items:
        return True
    if after is None:
        return rows.config.type != "plain"
    return end_of(rows) != after
