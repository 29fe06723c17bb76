"""The checks of waiters before they sleep: claimable work, ended jobs, changed feeds."""

from collections.abc import Sequence

from headrace.model.feed import FeedCursor, FeedName
from headrace.model.names import Queue
from headrace.stores.engine.feed_log import end_of
from headrace.stores.engine.rows import Tx
from headrace.stores.shared.sharding import by_shard


def has_changed(tx: Tx, feed: FeedName, after: FeedCursor | None) -> bool:
    """Whether the log has changes for a reader at `after`, or an item queue has items."""
    rows = tx.feed(feed)
    if rows is None:
        return after is not None
    if rows.config.type == "queue" and rows.counters.items:
        return True
    if after is None:
        return rows.config.type != "queue"
    return end_of(rows) != after


def has_ended(tx: Tx, queue: Queue, ids: Sequence[str]) -> bool:
    """Whether one of the jobs neither waits nor runs, or has a finished job that is kept."""
    now_ms = tx.now_ms()
    for shard, picks in by_shard(ids, lambda id: (queue, id)):
        rows = tx.rows(shard)
        if rows is None:
            return True
        wanted = [ids[index] for index in picks]
        rows.load(wanted)
        for id in wanted:
            if rows.job(id) is None:
                return True
            finished_job = rows.finished_job(id)
            if finished_job is not None and now_ms < finished_job.until_ms:
                return True
    return False


def has_work(tx: Tx, queues: Sequence[Queue]) -> bool:
    """Whether a claim would find something to hand out, to promote or to repair."""
    now_ms = tx.now_ms()
    return any(
        (rows := tx.rows(shard)) is not None
        and (
            (not rows.config.paused and (bool(rows.ready(-1, 1)) or _over(rows.next_later_ms(), now_ms)))
            or _over(rows.next_lease_end_ms(), now_ms)
        )
        for queue in queues
        for shard in queue.all_shards()
    )


def next_later_ms(tx: Tx, queues: Sequence[Queue]) -> int | None:
    """The earliest due time of a later job: a waiter must wake when it becomes earlier."""
    times = [
        rows.next_later_ms()
        for queue in queues
        for shard in queue.all_shards()
        if (rows := tx.rows(shard)) is not None and not rows.config.paused
    ]
    return min((each for each in times if each is not None), default=None)


def _over(time_ms: int | None, now_ms: int) -> bool:
    return time_ms is not None and time_ms <= now_ms
