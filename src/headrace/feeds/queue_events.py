"""The events of a job queue as a feed that may only be read: its journal, followed live."""

import asyncio
import re
from collections.abc import Sequence
from heapq import merge

from msgspec import Struct
from msgspec.structs import asdict

from headrace.client.retry import retry_forever
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
_UNTOLD = ("event", "payload")
"""Of a line: the name is the change's own, and whoever watches a queue does not see payloads by that."""


class QueueCheckpoint(Struct, frozen=True, gc=False):
    """How far a shard's journal was read: up to `seq`, which was written in `epoch`."""

    epoch: int
    seq: int


Look = tuple[QueueCheckpoint | None, Sequence[Event]]
"""Where to go on instead, when the journal does not hold what comes next; and what came."""


class QueueEvents:
    """What happens to the jobs of a queue, for whoever wants to watch. Nobody writes here but the queue itself."""

    def __init__(self, store: Store, queue: Queue) -> None:
        self.queue = queue
        self._store = store

    def subscribe(
        self, *, cursor: str | None = None, beginning: bool = False, heartbeat: Duration | None = None
    ) -> "QueueSubscription":
        """What happens from now on, or, with `beginning`, what the journal still knows and then the rest.

        `live` comes first, with the cursor of the start; then a change for every event: `event` is its name in the
        journal, `id` the job's, `item` what the journal has of it, `instance` the worker. With the `cursor` of an
        earlier change, only what happened since. `gap` says that the journal no longer has what came next; all that it
        has follows. A line of the journal that cannot be read is told with what can be, and with its `flaw`; the event
        is `unreadable` where not even that can.
        """
        return QueueSubscription(self._store, self.queue, cursor, beginning=beginning, heartbeat=heartbeat)

    def __repr__(self) -> str:
        return f"<QueueEvents of {self.queue.full_name!r}>"


class QueueSubscription(ChangeStream):
    """Follows the journals of all shards of a queue: in order within a shard, by time between them.

    The journal wakes nobody, so it is looked at: often while it is busy, once a second while it is not.
    """

    def __init__(
        self, store: Store, queue: Queue, cursor: str | None, *, beginning: bool, heartbeat: Duration | None
    ) -> None:
        super().__init__(store, queue.full_name, cursor, heartbeat=heartbeat, left_out=None)
        self._queue = queue
        self._beginning = beginning
        self._marks = None if cursor is None else _parsed(cursor, queue)
        self._nap_ms = 0

    def __repr__(self) -> str:
        return f"<QueueSubscription to {self._queue.full_name!r} at {self.cursor}>"

    async def _fill(self) -> None:
        if self._marks is None:
            marks = self._marks = await self._unbroken(None, self._started)
            self._take([Change(self._name, "live", cursor=_text(marks))])
            return
        marks = self._marks
        found = await self._unbroken(_text(marks), lambda: self._looked(marks))
        is_quiet = all(not events and start is None for start, events in found)
        self._nap_ms = min(max(self._nap_ms * 2, QUEUE_EVENTS_NAP_MS), QUEUE_EVENTS_NAP_MS_MAX) if is_quiet else 0
        if not is_quiet:
            self._take(self._told([start for start, _ in found], [events for _, events in found]))

    async def _started(self) -> list[QueueCheckpoint]:
        return await asyncio.gather(*map(self._start, self._queue.all_shards()))

    async def _looked(self, marks: Sequence[QueueCheckpoint]) -> list[Look]:
        await asyncio.sleep(self._nap_ms / 1_000)
        looks = [self._look(shard, mark) for shard, mark in zip(self._queue.all_shards(), marks, strict=True)]
        return await asyncio.gather(*looks)

    def _told(self, starts: Sequence[QueueCheckpoint | None], found: Sequence[Sequence[Event]]) -> list[Change]:
        assert self._marks is not None  # it has begun
        marks = [start or mark for start, mark in zip(starts, self._marks, strict=True)]
        is_gap = any(start is not None for start in starts)
        changes = [Change(self._name, "gap", cursor=_text(marks))] if is_gap else []
        for event in merge(*found, key=lambda event: (event.at_ms, event.shard.index)):
            marks[event.shard.index] = QueueCheckpoint(event.epoch, event.seq)
            changes.append(_change(self._name, event, _text(marks)))
        self._marks = marks
        return changes

    async def _start(self, shard: Shard) -> QueueCheckpoint:
        """The end of a shard's journal, or what comes before its oldest event."""
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

    async def _look(self, shard: Shard, mark: QueueCheckpoint) -> Look:
        """What came behind a mark."""
        bounds = await retry_forever(lambda: self._store.journal.bounds(shard))
        if bounds.last_seq == mark.seq and mark.epoch == bounds.epoch:
            return None, ()
        # The event that was seen last is read again: only together with it is it sure that the rest follows.
        seen = max(mark.seq - 1, 0)
        entries = await retry_forever(lambda: self._store.journal.read(shard, seen, max(bounds.last_seq, seen)))
        first = entries[0] if entries else None
        if first is None:
            follows = mark.seq == bounds.last_seq and bounds.first_seq > bounds.last_seq and mark.epoch == bounds.epoch
        elif first.first_seq == mark.seq and mark.seq:
            follows = first.epoch == mark.epoch
        else:
            follows = first.first_seq == mark.seq + 1 and (mark.seq == 0 or first.epoch == mark.epoch)
        events = [event for entry in entries for event in entry.events(shard)]
        if follows:
            return None, [event for event in events if event.seq > mark.seq]
        return await self._oldest(shard), ()


def _change(name: str, event: Event, cursor: str) -> Change:
    line = event.line
    item = {column: value for column, value in asdict(line).items() if value is not None and column not in _UNTOLD}
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


def _text(marks: Sequence[QueueCheckpoint]) -> str:
    return "-".join([f"{mark.epoch}.{mark.seq}" for mark in marks])


def _parsed(cursor: object, queue: Queue) -> list[QueueCheckpoint]:
    marks: list[QueueCheckpoint] = []
    if isinstance(cursor, str) and _CURSOR.fullmatch(cursor):
        for part in cursor.split("-"):
            epoch, _, seq = part.partition(".")
            marks.append(QueueCheckpoint(int(epoch), int(seq)))
    if len(marks) != queue.shards:
        raise Refused(
            "bad_cursor",
            f"{bounded_repr(cursor)} is not a cursor of the {queue.shards} shards of {queue.full_name!r}; start without"
            " one",
        )
    return marks
