"""Follows the journal of a job queue as a read-only feed."""

import asyncio
import re
from collections.abc import Sequence
from heapq import merge

from msgspec import Struct
from msgspec.structs import asdict

from headrace.client.tasks import retry_forever
from headrace.feeds.change import Change
from headrace.feeds.subscription import ChangeStream
from headrace.model.errors import Refused
from headrace.model.event import Event
from headrace.model.limits import QUEUE_EVENTS_NAP_MS, QUEUE_EVENTS_NAP_MS_MAX
from headrace.model.names import Queue, Shard
from headrace.model.times import Duration
from headrace.model.validate import bounded_repr
from headrace.stores.contract.store import Store

_CURSOR = re.compile(r"\d{1,15}\.\d{1,18}(-\d{1,15}\.\d{1,18})*", re.ASCII)
_HIDDEN = ("event", "payload")
"""Columns left out of a change's item: the change has the event itself, and subscribers see no payloads."""


class QueueCheckpoint(Struct, frozen=True, gc=False):
    """The position in a shard's journal: read up to `seq`, which was written in `epoch`."""

    epoch: int
    seq: int


NewEvents = tuple[QueueCheckpoint | None, Sequence[Event]]
"""The offset to start over at, if the journal no longer has the next event, and the new events."""


class QueueEvents:
    """The events of a queue's jobs as a read-only feed."""

    def __init__(self, store: Store, queue: Queue) -> None:
        self.queue = queue
        self._store = store

    def subscribe(
        self, *, cursor: str | None = None, beginning: bool = False, heartbeat: Duration | None = None
    ) -> "QueueSubscription":
        """The events from now on, or with `beginning` from the oldest one in the journal.

        `live` comes first, with the cursor of the start; then a change for every event: `event` is its name in the
        journal, `id` the job's, `item` the other columns, `instance` the worker. With the `cursor` of an earlier
        change, only the events since. After `gap` the journal no longer had the next events; all that it has follow. A
        damaged line yields its readable fields and its `flaw`; the event is `unreadable` if nothing can be read.
        """
        return QueueSubscription(self._store, self.queue, cursor, beginning=beginning, heartbeat=heartbeat)

    def __repr__(self) -> str:
        return f"<QueueEvents of {self.queue.full_name!r}>"


class QueueSubscription(ChangeStream):
    """Follows the journals of all shards of a queue: in order within a shard, by time between shards.

    The journal sends no signals, so it is polled: often while it is busy, else once a second.
    """

    def __init__(
        self, store: Store, queue: Queue, cursor: str | None, *, beginning: bool, heartbeat: Duration | None
    ) -> None:
        super().__init__(store, queue.full_name, cursor, heartbeat=heartbeat, excluded_instance=None)
        self._queue = queue
        self._beginning = beginning
        self._checkpoints = None if cursor is None else _parse_cursor(cursor, queue)
        self._pause_ms = 0

    def __repr__(self) -> str:
        return f"<QueueSubscription to {self._queue.full_name!r} at {self.cursor}>"

    async def _fill(self) -> None:
        if self._checkpoints is None:
            checkpoints = self._checkpoints = await self._shared(None, self._start_all)
            self._take([Change(self._name, "live", cursor=_format_cursor(checkpoints))])
            return
        checkpoints = self._checkpoints
        found = await self._shared(_format_cursor(checkpoints), lambda: self._poll(checkpoints))
        is_quiet = all(not events and start is None for start, events in found)
        self._pause_ms = min(max(self._pause_ms * 2, QUEUE_EVENTS_NAP_MS), QUEUE_EVENTS_NAP_MS_MAX) if is_quiet else 0
        if not is_quiet:
            self._take(self._changes_of([start for start, _ in found], [events for _, events in found]))

    async def _start_all(self) -> list[QueueCheckpoint]:
        return await asyncio.gather(*map(self._start, self._queue.all_shards()))

    async def _poll(self, checkpoints: Sequence[QueueCheckpoint]) -> list[NewEvents]:
        await asyncio.sleep(self._pause_ms / 1_000)
        reads = [
            self._read_new(shard, checkpoint)
            for shard, checkpoint in zip(self._queue.all_shards(), checkpoints, strict=True)
        ]
        return await asyncio.gather(*reads)

    def _changes_of(self, starts: Sequence[QueueCheckpoint | None], found: Sequence[Sequence[Event]]) -> list[Change]:
        assert self._checkpoints is not None  # set by the first `_fill`
        checkpoints = [start or checkpoint for start, checkpoint in zip(starts, self._checkpoints, strict=True)]
        is_gap = any(start is not None for start in starts)
        changes = [Change(self._name, "gap", cursor=_format_cursor(checkpoints))] if is_gap else []
        for event in merge(*found, key=lambda event: (event.at_ms, event.shard.index)):
            checkpoints[event.shard.index] = QueueCheckpoint(event.epoch, event.seq)
            changes.append(_change(self._name, event, _format_cursor(checkpoints)))
        self._checkpoints = checkpoints
        return changes

    async def _start(self, shard: Shard) -> QueueCheckpoint:
        """The offset at the end of a shard's journal, or before its oldest event."""
        if self._beginning:
            return await self._oldest(shard)
        bounds = await retry_forever(lambda: self._store.journal.bounds(shard))
        return QueueCheckpoint(await self._epoch_of(shard, bounds.last_seq, bounds.epoch), bounds.last_seq)

    async def _oldest(self, shard: Shard) -> QueueCheckpoint:
        bounds = await retry_forever(lambda: self._store.journal.bounds(shard))
        return QueueCheckpoint(await self._epoch_of(shard, bounds.first_seq, bounds.epoch), bounds.first_seq - 1)

    async def _epoch_of(self, shard: Shard, seq: int, otherwise: int) -> int:
        """The epoch in which an event was written."""
        found = await retry_forever(lambda: self._store.journal.read(shard, max(seq - 1, 0), seq, limit=1))
        return found[0].epoch if found else otherwise

    async def _read_new(self, shard: Shard, checkpoint: QueueCheckpoint) -> NewEvents:
        """The events after a checkpoint."""
        bounds = await retry_forever(lambda: self._store.journal.bounds(shard))
        if bounds.last_seq == checkpoint.seq and checkpoint.epoch == bounds.epoch:
            return None, ()
        # Read the last event again: its epoch proves that the journal is still the same.
        before_seq = max(checkpoint.seq - 1, 0)
        entries = await retry_forever(
            lambda: self._store.journal.read(shard, before_seq, max(bounds.last_seq, before_seq))
        )
        first = entries[0] if entries else None
        if first is None:
            follows = (
                checkpoint.seq == bounds.last_seq
                and bounds.first_seq > bounds.last_seq
                and checkpoint.epoch == bounds.epoch
            )
        elif first.first_seq == checkpoint.seq and checkpoint.seq:
            follows = first.epoch == checkpoint.epoch
        else:
            follows = first.first_seq == checkpoint.seq + 1 and (checkpoint.seq == 0 or first.epoch == checkpoint.epoch)
        events = [event for entry in entries for event in entry.events(shard)]
        if follows:
            return None, [event for event in events if event.seq > checkpoint.seq]
        return await self._oldest(shard), ()


def _change(name: str, event: Event, cursor: str) -> Change:
    line = event.line
    item = {column: value for column, value in asdict(line).items() if value is not None and column not in _HIDDEN}
    if event.flaw is not None:
        item["flaw"] = event.flaw
    return Change(
        name,
        line.event,
        id=line.id or "",
        item=item,
        reason=line.reason,
        instance=line.worker,
        at_ms=event.at_ms,
        seq=event.seq,
        cursor=cursor,
    )


def _format_cursor(checkpoints: Sequence[QueueCheckpoint]) -> str:
    return "-".join([f"{checkpoint.epoch}.{checkpoint.seq}" for checkpoint in checkpoints])


def _parse_cursor(cursor: object, queue: Queue) -> list[QueueCheckpoint]:
    checkpoints: list[QueueCheckpoint] = []
    if isinstance(cursor, str) and _CURSOR.fullmatch(cursor):
        for part in cursor.split("-"):
            epoch, _, seq = part.partition(".")
            checkpoints.append(QueueCheckpoint(int(epoch), int(seq)))
    if len(checkpoints) != queue.shards:
        raise Refused(
            "bad_cursor",
            f"{bounded_repr(cursor)} is not a cursor of the {queue.shards} shards of {queue.full_name!r}; start without"
            " one",
        )
    return checkpoints
