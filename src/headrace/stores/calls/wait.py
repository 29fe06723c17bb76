"""What a waiter looks at before it sleeps."""

from collections.abc import Sequence

from headrace.model.checks import check_batch, check_int
from headrace.model.limits import DURATION_MS_MAX, QUEUES_PER_CLAIM_MAX
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


def next_later_ms(tx: Tx, queues: Sequence[Queue]) -> int | None:
    """The earliest time of a later job: when it moves forward, a waiter has to think again."""
    times = [
        rows.next_later_ms()
        for queue in queues
        for shard in queue.all_shards()
        if (rows := tx.rows(shard)) is not None and not rows.config.paused
    ]
    return min((each for each in times if each is not None), default=None)


def check_wait(queues: Sequence[Queue], timeout_ms: object) -> list[tuple[str, str]]:
    """Refuse a wait that can never be right; returns the names to watch, each once."""
    check_batch("queues", len(queues), QUEUES_PER_CLAIM_MAX)
    check_int("timeout_ms", timeout_ms, 0, DURATION_MS_MAX)
    return list(dict.fromkeys((queue.tenant, queue.full_name) for queue in queues))


def _over(time_ms: int | None, now_ms: int) -> bool:
    return time_ms is not None and time_ms <= now_ms
