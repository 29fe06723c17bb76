"""Queues as rows: what stands where, for people and for programs."""

from msgspec import Struct

from headrace.model.names import Queue
from headrace.model.results import Counts
from headrace.model.times import duration_text, instant_text
from headrace.stores.contract.store import Store

COLUMNS = (
    "queue",
    "shards#",
    "waiting#",
    "later#",
    "blocked#",
    "active#",
    "done#",
    "cancelled#",
    "dead#",
    "oldest due",
    "paused",
)
SPARE = ("cancelled", "done", "blocked", "later", "shards", "dead", "oldest due", "paused")
"""Columns that a narrow terminal may go without, the least needed first."""


class QueueRow(Struct, frozen=True):
    """How many jobs of a queue stand where; `later` are those of the waiting ones that are not yet ready."""

    tenant: str
    queue: str
    shards: int
    paused: bool
    waiting: int
    later: int
    blocked: int
    active: int
    done: int
    cancelled: int
    dead: int
    oldest_due_at: str | None
    """Since when the first in line has been due."""
    oldest_due_at_ms: int | None
    oldest_due_ms_ago: int | None

    @property
    def cells(self) -> tuple[object, ...]:
        """The row below `COLUMNS`."""
        return (
            self.queue,
            self.shards,
            *(self.waiting, self.later, self.blocked, self.active, self.done, self.cancelled, self.dead),
            None if self.oldest_due_ms_ago is None else f"{duration_text(self.oldest_due_ms_ago)} ago",
            "paused" if self.paused else "",
        )


async def row_of(store: Store, queue: Queue, now_ms: int) -> QueueRow:
    """What the store says of a queue; `now_ms` is the store's time."""
    config = await store.queues.configuration(queue)
    counts = await store.queues.counts(queue)
    due_at_ms = counts.oldest_due_ms
    return QueueRow(
        tenant=queue.tenant,
        queue=queue.full_name,
        shards=queue.shards,
        paused=config.paused,
        waiting=counts.waiting,
        later=counts.later,
        blocked=counts.blocked,
        active=counts.active,
        done=counts.done,
        cancelled=counts.cancelled,
        dead=counts.dead,
        oldest_due_at=None if due_at_ms is None else instant_text(due_at_ms),
        oldest_due_at_ms=due_at_ms,
        oldest_due_ms_ago=None if due_at_ms is None else max(now_ms - due_at_ms, 0),
    )


def total_of(rows: list[QueueRow]) -> Counts:
    """What the queues hold together."""
    found = Counts()
    for row in rows:
        found += Counts(
            *(row.waiting, row.later, row.blocked, row.active, row.done, row.cancelled, row.dead),
            row.oldest_due_at_ms,
        )
    return found


def live_text(row: QueueRow) -> str:
    """The jobs that are not over, in words; empty when there are none."""
    found = {"waiting": row.waiting, "blocked": row.blocked, "active": row.active}
    return ", ".join(f"{count:,} {state}" for state, count in found.items() if count)
