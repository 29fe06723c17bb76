"""What a run has replayed already, as the journal tells it: a dead letter that is gone may have been this run's own."""

from headrace.model.event import Span
from headrace.model.finished import DeadLetterKey
from headrace.model.names import Queue
from headrace.stores.contract.journal import Journal


class ReplayBatches:
    """The replays of queues since the start of a run, read as far as the journals have got."""

    def __init__(self, journal: Journal, started_at_ms: int) -> None:
        self._journal = journal
        self._started_at_ms = started_at_ms
        self._seen: dict[Queue, list[int]] = {}
        """How far each shard was read."""
        self._dead_letters: dict[tuple[Queue, DeadLetterKey], str] = {}
        self._ids: dict[tuple[Queue, str], DeadLetterKey] = {}

    async def look(self, queue: Queue) -> None:
        """Read on."""
        shards = queue.all_shards()
        bounds = await self._journal.all_bounds(shards)
        if queue not in self._seen:
            spans = [Span(shard, each.first_seq - 1, each.last_seq) for shard, each in zip(shards, bounds, strict=True)]
            self._seen[queue] = list(await self._journal.reached(spans, max(self._started_at_ms - 1, 0)))
        seen = self._seen[queue]
        for shard, each in zip(shards, bounds, strict=True):
            while seen[shard.index] < each.last_seq:
                entries = await self._journal.read(shard, seen[shard.index], each.last_seq)
                for event in (event for entry in entries for event in entry.events(shard)):
                    if (
                        event.line.event == "replayed"
                        and event.line.dead_letter is not None
                        and event.line.id is not None
                    ):
                        key = DeadLetterKey(shard.index, event.line.dead_letter)
                        self._dead_letters[queue, key] = event.line.id
                        self._ids[queue, event.line.id] = key
                seen[shard.index] = entries[-1].last_seq if entries else each.last_seq

    def find(self, queue: Queue, pick: DeadLetterKey | str) -> DeadLetterKey | None:
        """The dead letter that was replayed for a pick, if one was."""
        if isinstance(pick, str):
            return self._ids.get((queue, pick))
        return pick if (queue, pick) in self._dead_letters else None
