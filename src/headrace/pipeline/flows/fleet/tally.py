"""The tally: what a fleet has done so far, counted as the journal is written."""

from collections import Counter
from collections.abc import Sequence

from headrace.model.event import Bounds
from headrace.model.names import Queue, Shard
from headrace.pipeline.source.journal.ranges import bounds_of
from headrace.stores.contract.store import Store

ENDS = ("done", "retried", "released", "dead", "cancelled")
"""What a worker makes of a delivery."""
_BEGINS = {event: f'{{"event":"{event}",'.encode() for event in ENDS}
"""How lines begin: no text inside a line can hold this, its quotes would be escaped."""


class FleetTally:
    """Counts the ends of deliveries that the workers of one fleet have settled, from where the journals stood when it
    was made. Lines are counted and not read: a driver keeps up with many executors."""

    def __init__(self, prefix: str, starts: dict[Shard, Bounds]) -> None:
        self._prefix = prefix
        self._places = {shard: bounds.last_seq for shard, bounds in starts.items()}
        self.counts: Counter[str] = Counter()

    @property
    def settled(self) -> int:
        """Deliveries that one of the fleet has ended."""
        return self.counts.total()

    async def look(self, store: Store) -> None:
        """Count what was written since the last look."""
        for shard, bounds in (await bounds_of(store.journal, list(self._places))).items():
            # What retention has dropped, or the store lost, was not seen: the report says what was missed.
            after = max(min(self._places[shard], bounds.last_seq), bounds.first_seq - 1)
            while after < bounds.last_seq:
                entries = await store.journal.read(shard, after, bounds.last_seq)
                if not entries:
                    break
                for entry in entries:
                    if entry.worker is not None and entry.worker.startswith(self._prefix):
                        self._count(entry.lines)
                after = entries[-1].last_seq
            self._places[shard] = bounds.last_seq

    def _count(self, lines: bytes) -> None:
        for event, begin in _BEGINS.items():
            if found := lines.count(begin):
                self.counts[event] += found


async def starts_of(store: Store, queues: Sequence[Queue]) -> dict[Shard, Bounds]:
    """Where the journals of queues stand."""
    return await bounds_of(store.journal, [shard for queue in queues for shard in queue.all_shards()])
