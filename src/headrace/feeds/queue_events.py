"""Follows the journal of a job queue as a read-only feed."""

import asyncio
import re

from headrace.feeds.change import Change
from headrace.feeds.queue_hub import (
    Checkpoints,
    EventPage,
    QueueCheckpoint,
    QueueHub,
    QueueJournals,
    format_cursor,
    queue_hub_of,
)
from headrace.feeds.subscription import ChangeStream
from headrace.model.errors import Refused
from headrace.model.limits import QUEUE_EVENTS_NAP_MS_MAX
from headrace.model.names import Queue
from headrace.model.times import Duration
from headrace.model.validate import bounded_repr
from headrace.stores.contract.store import Store

_CURSOR = re.compile(r"\d{1,15}\.\d{1,18}(-\d{1,15}\.\d{1,18})*", re.ASCII)


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

    Thousands on one event loop share one reader of the journals. One that is behind reads alone up to where the shared
    reader is, and joins it there.
    """

    def __init__(
        self, store: Store, queue: Queue, cursor: str | None, *, beginning: bool, heartbeat: Duration | None
    ) -> None:
        super().__init__(store, queue.full_name, cursor, heartbeat=heartbeat, excluded_instance=None)
        self._queue = queue
        self._beginning = beginning
        self._position = None if cursor is None else _parse_cursor(cursor, queue)
        """The position after the taken changes; None before the start."""
        self._is_at_end = False
        """Whether the journals ended at the position, so that the hub may start there."""
        self._hub: QueueHub | None = None

    def __repr__(self) -> str:
        return f"<QueueSubscription to {self._queue.full_name!r} at {self.cursor}>"

    async def aclose(self) -> None:
        await super().aclose()
        if self._hub is not None and self._hub.is_usable:
            self._hub.leave(self)
        self._hub = None

    def move_to(self, store: Store) -> None:
        if store is not self._store:
            self._hub = None  # it belongs to the previous event loop
        super().move_to(store)

    def _join_hub(self) -> QueueHub:
        if self._hub is None or not self._hub.is_usable:
            self._hub = queue_hub_of(self._store, self._queue)
            self._hub.subscribers.add(self)
        return self._hub

    def _take_ready(self) -> bool:
        if self._position is None or self._hub is None:
            return False
        found = self._hub.page_behind(format_cursor(self._position))
        if found is not None:
            self._take_page(*found)
        return found is not None

    def _take_page(self, page: EventPage, index: int = 0) -> None:
        self._take(page.changes, index)
        self._position, self._is_at_end = page.end, True

    async def _fill(self) -> None:
        hub = self._join_hub()
        if self._position is None:
            await self._begin(hub)
            return
        while not self._take_ready():
            if hub.end != self._position:
                await self._catch_up(hub, self._position)
                return
            await hub.wait()
            if hub.is_over:
                return  # the next call joins another

    async def _begin(self, hub: QueueHub) -> None:
        if self._beginning:
            position = await self._shared(None, QueueJournals(self._store, self._queue).beginnings)
        else:
            position = await hub.ends()
        self._take([Change(self._name, "live", cursor=format_cursor(position))])
        self._position, self._is_at_end = position, not self._beginning

    async def _catch_up(self, hub: QueueHub, position: Checkpoints) -> None:
        """Continue at a position where the hub is not: it has not started, or is ahead or behind."""
        end = hub.end
        if end is None and self._is_at_end:
            hub.follow(position)
        elif end is None or not _is_ahead(position, end):
            await self._read(position, end)
        else:
            # The hub will be there within a pause; if it is not, the store lost events: find out alone.
            try:
                async with asyncio.timeout(2 * QUEUE_EVENTS_NAP_MS_MAX / 1_000):
                    await hub.wait()
            except TimeoutError:
                await self._read(position, None)

    async def _read(self, position: Checkpoints, upto: Checkpoints | None) -> None:
        journals = QueueJournals(self._store, self._queue)
        page = await self._shared((position, upto), lambda: journals.page_after(position, upto))
        if page is None:
            self._is_at_end = True
        else:
            self._take_page(page)
            self._is_at_end = False


def _is_ahead(position: Checkpoints, end: Checkpoints) -> bool:
    """Whether some events before a position were not read up to `end`, and none after it were."""
    return all(own.seq >= other.seq for own, other in zip(position, end, strict=True))


def _parse_cursor(cursor: object, queue: Queue) -> Checkpoints:
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
    return tuple(checkpoints)
