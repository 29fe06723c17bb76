"""The counters of a shard with the number of records in each state, as columns of its row."""

from headrace.stores.engine.rows import ShardCounters
from headrace.stores.shared.lookup import Row

COUNTS = ("ready", "later", "blocked", "active", "done", "cancelled", "dead", "unpinned")


class SqliteShardCounters(ShardCounters):
    """Read with the row of the shard, and written back when a step has changed them."""

    __slots__ = ("active", "blocked", "cancelled", "dead", "done", "finished_job", "later", "ready", "unpinned")
    ready: int
    later: int
    blocked: int
    active: int
    done: int
    cancelled: int
    dead: int
    unpinned: int
    finished_job: int
    COLUMNS = (
        "epoch",
        "seq",
        "at_ms",
        "fence",
        "number",
        "dead_letter",
        "first_seq",
        "journal_bytes",
        "oldest_at_ms",
        "ready",
        "later",
        "blocked",
        "active",
        "done",
        "cancelled",
        "dead",
        "unpinned",
        "finished_job",
    )

    def __init__(self, stored: tuple[int, ...]) -> None:
        super().__init__()
        for column, value in zip(self.COLUMNS, stored, strict=True):
            setattr(self, column, value)

    def stored(self) -> tuple[int, ...]:
        """The counters in the order of their columns."""
        return tuple(getattr(self, column) for column in self.COLUMNS)

    def kept(self) -> dict[str, int]:
        """The number of records in each state."""
        return {name: getattr(self, name) for name in COUNTS}

    def count(self, row: Row | None, by: int) -> None:
        """Add a job that waits or is active, or take it off."""
        if row is None:
            return
        if row.delivery is not None:
            self.active += by
        elif row.record.order_key is not None:
            self.ready += by
        else:
            self.later += by

    def count_finished(self, state: str, pinned: bool, by: int) -> None:
        """Add a finished job, or take it off."""
        if state == "done":
            self.done += by
        else:
            self.cancelled += by
        if not pinned:
            self.unpinned += by
