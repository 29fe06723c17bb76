"""Reads the journals of a job queue once for all who follow its events on an event loop."""

import asyncio
from collections.abc import Sequence
from heapq import merge
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from headrace.client.tasks import retry_forever
from headrace.feeds.change import Change
from headrace.feeds.log_hub import Key, LogHub, shared_hub
from headrace.model.event import Bounds, Event
from headrace.model.limits import (
    HUB_BYTES_MAX,
    HUB_CHANGES_MAX,
    QUEUE_EVENTS_NAP_MS,
    QUEUE_EVENTS_NAP_MS_MAX,
)
from headrace.model.names import Queue, Shard
from headrace.stores.contract.store import Store
from headrace.stores.shared.waiters import SingleFlight

_HIDDEN = ("event", "payload")
"""Columns left out of a change's item: the change has the event itself, and subscribers see no payloads."""


class QueueCheckpoint(Struct, frozen=True, gc=False):
    """The position in a shard's journal: read up to `seq`, which was written in `epoch`."""

    epoch: int
    seq: int


Checkpoints = tuple[QueueCheckpoint, ...]
"""The position in a queue: one for each shard."""


class EventPage(NamedTuple):
    """Changes of a queue in order, and the position after them."""

    changes: list[Change]
    end: Checkpoints
    size: int
    """The bytes it counts for."""


class ShardEvents(NamedTuple):
    """The new events of a shard, and their bytes in the journal."""

    restart: QueueCheckpoint | None
    """Where to start over, if the journal no longer has the next event."""
    events: Sequence[Event]
    size: int


class QueueJournals:
    """Reads what is new in the journals of a queue's shards."""

    def __init__(self, store: Store, queue: Queue) -> None:
        self._store = store
        self._queue = queue
        self._shards = queue.all_shards()

    async def ends(self) -> Checkpoints:
        """The ends of all journals."""
        return await self._checkpoints(at_end=True)

    async def beginnings(self) -> Checkpoints:
        """The positions before the oldest event of each journal."""
        return await self._checkpoints(at_end=False)

    async def _checkpoints(self, at_end: bool) -> Checkpoints:
        bounds = await self._bounds()
        return tuple(
            await asyncio.gather(
                *(self._checkpoint(shard, each, at_end) for shard, each in zip(self._shards, bounds, strict=True))
            )
        )

    async def page_after(self, after: Checkpoints, upto: Checkpoints | None = None) -> EventPage | None:
        """The next events of all shards, in order within a shard and by time between shards; None for none. With
        `upto`, none beyond that position."""
        bounds = await self._bounds()
        wanted = [
            each.last_seq if upto is None else min(max(upto[index].seq, after[index].seq), each.last_seq)
            for index, each in enumerate(bounds)
        ]
        found = await asyncio.gather(*map(self._new_events, self._shards, after, bounds, wanted))
        if not any(each.events or each.restart for each in found):
            return None
        position = [each.restart or checkpoint for each, checkpoint in zip(found, after, strict=True)]
        name = self._queue.full_name
        is_gap = any(each.restart is not None for each in found)
        changes = [Change(name, "gap", cursor=format_cursor(position))] if is_gap else []
        for event in merge(*(each.events for each in found), key=lambda event: (event.at_ms, event.shard.index)):
            position[event.shard.index] = QueueCheckpoint(event.epoch, event.seq)
            changes.append(_change(name, event, format_cursor(position)))
        return EventPage(changes, tuple(position), sum(each.size for each in found))

    async def _bounds(self) -> Sequence[Bounds]:
        return await retry_forever(lambda: self._store.journal.all_bounds(self._shards))

    async def _checkpoint(self, shard: Shard, bounds: Bounds, at_end: bool) -> QueueCheckpoint:
        seq = bounds.last_seq if at_end else bounds.first_seq
        found = await retry_forever(lambda: self._store.journal.read(shard, max(seq - 1, 0), seq, limit=1))
        epoch = found[0].epoch if found else bounds.epoch
        return QueueCheckpoint(epoch, seq if at_end else seq - 1)

    async def _new_events(self, shard: Shard, after: QueueCheckpoint, bounds: Bounds, upto: int) -> ShardEvents:
        if upto == after.seq and (upto < bounds.last_seq or after.epoch == bounds.epoch):
            return ShardEvents(None, (), 0)
        # Read the last event again: its epoch proves that the journal is still the same.
        before_seq = max(after.seq - 1, 0)
        entries = await retry_forever(lambda: self._store.journal.read(shard, before_seq, max(upto, before_seq)))
        first = entries[0] if entries else None
        if first is None:
            is_empty = bounds.first_seq > bounds.last_seq == after.seq
            follows = is_empty and (after.seq == 0 or after.epoch == bounds.epoch)
        elif first.first_seq == after.seq and after.seq:
            follows = first.epoch == after.epoch
        else:
            follows = first.first_seq == after.seq + 1 and (after.seq == 0 or first.epoch == after.epoch)
        if not follows:
            return ShardEvents(await self._checkpoint(shard, bounds, at_end=False), (), 0)
        events = [event for entry in entries for event in entry.events(shard) if event.seq > after.seq]
        return ShardEvents(None, events, sum(len(entry.lines) for entry in entries))


def queue_hub_of(store: Store, queue: Queue) -> "QueueHub":
    """The hub of a queue's events on the running event loop."""
    return shared_hub(store, queue, lambda key: QueueHub(QueueJournals(store, queue), key))


class QueueHub(LogHub[Checkpoints]):
    """Follows the journals of a queue: they send no signals, so they are polled, often while they are busy."""

    def __init__(self, journals: QueueJournals, key: Key) -> None:
        super().__init__(key)
        self._journals = journals
        self._pages: list[tuple[str, EventPage]] = []
        """The latest pages, each with the cursor before it."""
        self._places: dict[str, tuple[EventPage, int]] = {}
        """The page and the index of the change after a cursor."""
        self._changes = 0
        self._bytes = 0
        self._pause_ms = 0
        self._ends = SingleFlight(journals.ends)

    async def ends(self) -> Checkpoints:
        """The ends of all journals, which subscribers that come together read once."""
        return await self._ends.run()

    def stop(self) -> None:
        self._ends.close()
        super().stop()

    def page_behind(self, cursor: str) -> tuple[EventPage, int] | None:
        """The page with the change after a cursor and its index there, if it was read lately."""
        return self._places.get(cursor)

    def _drop_window(self) -> None:
        self._pages, self._places, self._changes, self._bytes = [], {}, 0, 0

    async def _advance(self) -> bool:
        assert self.end is not None  # it is reading
        await asyncio.sleep(self._pause_ms / 1_000)
        page = await self._journals.page_after(self.end)
        if page is None:
            self._pause_ms = min(max(self._pause_ms * 2, QUEUE_EVENTS_NAP_MS), QUEUE_EVENTS_NAP_MS_MAX)
        else:
            self._pause_ms = 0
            self._add(format_cursor(self.end), page)
            self.end = page.end
            self._wake_waiters()
        return False

    def _add(self, before: str, page: EventPage) -> None:
        self._pages.append((before, page))
        for index, cursor in enumerate([before, *(change.cursor or "" for change in page.changes[:-1])]):
            self._places[cursor] = page, index
        self._changes += len(page.changes)
        self._bytes += page.size
        while len(self._pages) > 1 and (self._changes > HUB_CHANGES_MAX or self._bytes > HUB_BYTES_MAX):
            oldest_before, oldest = self._pages.pop(0)
            for cursor in [oldest_before, *(change.cursor or "" for change in oldest.changes[:-1])]:
                if self._places.get(cursor, (None,))[0] is oldest:
                    del self._places[cursor]
            self._changes -= len(oldest.changes)
            self._bytes -= oldest.size


def format_cursor(checkpoints: Sequence[QueueCheckpoint]) -> str:
    """A position as text."""
    return "-".join([f"{checkpoint.epoch}.{checkpoint.seq}" for checkpoint in checkpoints])


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
