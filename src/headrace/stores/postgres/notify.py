"""Wakes waiters by NOTIFY: a queue may have work, jobs have ended, a feed has changed. One connection listens for all
waiters of a store."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import psycopg
from psycopg.sql import SQL, Identifier

from headrace.model.errors import HeadraceError
from headrace.model.feed import FeedCursor, FeedName
from headrace.model.names import Queue
from headrace.stores.engine.signals import has_work, next_later_ms
from headrace.stores.postgres.connection import Connection, ConnectionSettings, ConnectionThreads, connect
from headrace.stores.postgres.waiters import EndAnnouncements, EndedJobs, FeedPolls, ReadStep, has_ended, pack_ids
from headrace.stores.shared.waiters import (
    JobName,
    Name,
    Waiters,
    check_changed,
    check_ended,
    check_wait,
    is_set_within,
    name_of,
    names_of,
)

RECONNECT_SECONDS = 0.5


class NotifyListener:
    """Delivers the notifications of a channel, and reports when some may have been missed."""

    def __init__(
        self, settings: ConnectionSettings, channel: str, deliver: Callable[[str], None], missed: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._channel = channel
        self._deliver = deliver
        self._missed = missed
        self._task: asyncio.Task[None] | None = None
        self._has_tried = asyncio.Event()
        self.is_listening = False

    async def start(self) -> None:
        """Start listening; returns after the first attempt, also when it failed."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen())
        await self._has_tried.wait()

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            opening = loop.run_in_executor(None, self._open)
            try:
                connection = await asyncio.shield(opening)
            except psycopg.Error:
                self._has_tried.set()
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            except asyncio.CancelledError:
                opening.add_done_callback(_close_opened)
                raise
            try:
                await self._receive(connection)
            except psycopg.Error:
                self.is_listening = False
            finally:
                connection.close()

    def _open(self) -> Connection:
        connection = connect(self._settings)
        try:
            connection.execute(SQL("LISTEN {}").format(Identifier(self._channel)), prepare=False)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _receive(self, connection: Connection) -> None:
        """Deliver every notification until the connection is lost."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        self._missed()  # earlier notifications are lost
        self.is_listening = True
        self._has_tried.set()
        loop.add_reader(connection.fileno(), readable.set)
        try:
            while True:
                await readable.wait()
                readable.clear()
                connection.pgconn.consume_input()
                while (notification := connection.pgconn.notifies()) is not None:
                    self._deliver(notification.extra.decode())
        finally:
            loop.remove_reader(connection.fileno())

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _close_opened(opening: "asyncio.Future[Connection]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


POLL_SECONDS = 5.0
"""How often a waiter polls beside the listener: a lost notification costs no more than this."""
NO_LISTENER_POLL_SECONDS = 0.25
"""How often a waiter polls without a listener."""
FIRST_POLL_SECONDS = 0.1
"""When the first waiter for an end polls again: a call that ended the job meanwhile may not know of the waiter yet."""
NOTIFY_GAP_SECONDS = 0.005
"""The pause between two sends: commits that NOTIFY wait for each other in the server, so a busy process sends few."""
CLOSE_SECONDS = 1.0
"""How long closing waits for the last send; without it, other processes find out by polling."""


def channel_of(schema: str) -> str:
    """The channel of a schema: stores in other schemas of a database have their own."""
    return f"headrace_{schema}"


def payload_of(sender: str, name: Name) -> str:
    """The payload for a queue, with its sender: a process ignores its own notifications."""
    return "/".join((sender, *name))


def payload_of_feed(sender: str, name: Name) -> str:
    """The payload for a changed feed; its empty tenant distinguishes it from that of a queue."""
    return "/".join((sender, "", *name))


class PostgresSignals:
    """Hints, never truth: every waiter polls before it sleeps, and now and then while it does."""

    def __init__(self, settings: ConnectionSettings, threads: ConnectionThreads, read: ReadStep) -> None:
        self._threads = threads
        self._read = read
        self._sender = secrets.token_hex(6)
        self._channel = channel_of(settings.schema)
        self._listening = NotifyListener(settings, self._channel, self._deliver, self._wake_all)
        self._queue_waiters = Waiters[Name]()
        self._job_waiters = Waiters[JobName]()
        self._announcements = EndAnnouncements(threads)
        self._feed_waiters = Waiters[Name]()
        self._feed_polls = FeedPolls(read)
        self._asleep: set[asyncio.Event] = set()
        self._unsent_queues: set[Name] = set()
        self._unsent_ends: dict[Name, list[str]] = {}
        self._unsent_feeds: set[Name] = set()
        self._sending: asyncio.Task[None] | None = None
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._queue_waiters) + len(self._job_waiters) + len(self._feed_waiters)

    @property
    def asleep(self) -> int:
        """How many waiters have polled and sleep now."""
        return len(self._asleep)

    def notify(self, names: Iterable[Name], ended: Iterable[EndedJobs] = (), changed: Iterable[FeedName] = ()) -> None:
        """Wake the waiters of this process and notify other processes; after the commit, on the event loop."""
        names, feeds = set(names), {(feed.tenant, feed.name) for feed in changed}
        self._feed_waiters.wake(feeds)
        self._unsent_feeds |= feeds
        self._queue_waiters.wake(names)
        self._unsent_queues |= names
        for queue, ids, is_awaited in ended:
            if len(self._job_waiters):
                self._job_waiters.wake(names_of(queue, ids))
            if is_awaited:
                self._unsent_ends.setdefault(name_of(queue), []).extend(ids)
        if self._is_unsent() and self._sending is None:
            self._sending = asyncio.create_task(self._send())

    def _is_unsent(self) -> bool:
        return bool(self._unsent_queues or self._unsent_ends or self._unsent_feeds)

    async def _send(self) -> None:
        # Payloads that come during a send go with the next one; a lost one costs latency only.
        try:
            while self._is_unsent():
                payloads = [payload_of(self._sender, name) for name in sorted(self._unsent_queues)]
                payloads += [payload_of_feed(self._sender, name) for name in sorted(self._unsent_feeds)]
                for name, ids in self._unsent_ends.items():
                    payloads += [f"{payload_of(self._sender, name)}/{part}" for part in pack_ids(ids)]
                self._unsent_queues, self._unsent_ends, self._unsent_feeds = set(), {}, set()
                with contextlib.suppress(HeadraceError, psycopg.Error):
                    await self._threads.run(partial(self._send_payloads, payloads))
                if not self._is_closing:
                    await asyncio.sleep(NOTIFY_GAP_SECONDS)
        finally:
            self._sending = None

    def _send_payloads(self, payloads: list[str], connection: Connection) -> None:
        connection.execute(
            "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload", (self._channel, payloads)
        )

    async def wait(self, queues: Sequence[Queue], timeout_ms: int) -> bool:
        names = check_wait(queues, timeout_ms)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        known_ms: int | None = None
        polls = 0
        with self._queue_waiters.watching(names) as event:
            await self._listening.start()
            while True:
                ready, later_ms = await self._read(lambda tx: (has_work(tx, queues), next_later_ms(tx, queues)))
                # A call whose notification was lost may have enqueued a job for an earlier time.
                earlier = later_ms is not None and (known_ms is None or later_ms < known_ms)
                if ready or event.is_set() or (earlier and polls):
                    return True
                polls, known_ms = polls + 1, later_ms
                left = deadline - loop.time()
                if left <= 0:
                    return False
                if await self._is_woken(event, left):
                    return True

    async def ended(self, queue: Queue, ids: Sequence[str], timeout_ms: int) -> bool:
        check_ended(queue, ids, timeout_ms)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        with self._job_waiters.watching(names_of(queue, ids)) as event:
            if timeout_ms:
                await self._listening.start()
            while True:
                is_first = timeout_ms > 0 and await self._announcements.announce(name_of(queue))
                if await self._read(lambda tx: has_ended(tx, queue, ids)) or event.is_set():
                    return True
                left = deadline - loop.time()
                if left <= 0:
                    return False
                if await self._is_woken(event, min(left, FIRST_POLL_SECONDS) if is_first else left):
                    return True

    async def changed(self, feed: FeedName, after: FeedCursor | None, timeout_ms: int) -> bool:
        check_changed(feed, after, timeout_ms)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        with self._feed_waiters.watching([(feed.tenant, feed.name)]) as event:
            if timeout_ms:
                await self._listening.start()
            while True:
                if await self._feed_polls.has_changed(feed, after) or event.is_set():
                    return True
                left = deadline - loop.time()
                if left <= 0:
                    return False
                if await self._is_woken(event, left):
                    return True

    async def _is_woken(self, event: asyncio.Event, seconds: float) -> bool:
        """Sleep until the next poll is due, or a notification comes."""
        self._asleep.add(event)
        try:
            return await is_set_within(
                event, min(seconds, POLL_SECONDS if self._listening.is_listening else NO_LISTENER_POLL_SECONDS)
            )
        finally:
            self._asleep.discard(event)

    def _wake_all(self) -> None:
        for event in self._asleep:
            event.set()

    def _deliver(self, payload: str) -> None:
        sender, *names = payload.split("/", 3)  # neither tenants nor queues hold slashes, ids may
        if sender == self._sender:
            return
        match names:
            case ["", tenant, name]:
                self._feed_waiters.wake([(tenant, name)])
            case [tenant, name]:
                self._queue_waiters.wake([(tenant, name)])
            case [tenant, name, ids]:
                self._job_waiters.wake((tenant, name, id) for id in ids.split("\n"))

    async def close(self) -> None:
        """Stop listening, and send the rest; waiters find the store closed when they poll."""
        self._is_closing = True
        if self._sending is not None:
            # The last notification of an ending process must be sent, too.
            await asyncio.wait([self._sending], timeout=CLOSE_SECONDS)
        await self._listening.close()
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
