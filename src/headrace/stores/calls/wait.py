"""What a waiter looks at before it sleeps."""

from collections.abc import Sequence

from headrace.model.names import Queue
from headrace.stores.transitions.rows import Tx


def has_work(tx: Tx, queues: Sequence[Queue], now_ms: int) -> bool:
    """Whether a claim at `now_ms` would find something to hand out, to promote or to repair."""
    return any(
        (rows := tx.rows(shard)) is not None
        and (
            (not rows.config.paused and (bool(rows.ready(-1, 1)) or _over(rows.next_later_ms(), now_ms)))
            or _over(rows.next_lease_end_ms(), now_ms)
        )
        for queue in queues
        for shard in queue.all_shards()
    )


def _over(time_ms: int | None, now_ms: int) -> bool:
    return time_ms is not None and time_ms <= now_ms
