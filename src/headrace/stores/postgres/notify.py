"""Wake-ups: NOTIFY says that a queue may have work, which jobs have ended or that a feed has changed, and one listening
connection hears it for all waiters of a store."""

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
from headrace.stores.postgres.connection import Connection, ConnectionSettings, connect
from headrace.stores.postgres.connection_threads import ConnectionThreads
from headrace.stores.postgres.job_waiters import EndedJobs, JobWaiters, has_ended, packed
from headrace.stores.postgres.looks import Looks, Read
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
    """Hands on what is said in a channel, and says when something may have been missed."""

    def __init__(
        self, settings: ConnectionSettings, channel: str, take: Callable[[str], None], missed: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._channel = channel
        self._take = take
        self._missed = missed
        self._task: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self.hears = False

    async def begin(self) -> None:
        """Have somebody listen, or know that nobody can at present."""
        if self._task is None:
            self._task = asyncio.create_task(self._keep_listening())
        await self._tried.wait()

    async def _keep_listening(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            opening = loop.run_in_executor(None, self._open)
            try:
                connection = await asyncio.shield(opening)
            except psycopg.Error:
                self._tried.set()
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            except asyncio.CancelledError:
                opening.add_done_callback(_close_opened)
                raise
            try:
                await self._hear(connection)
            except psycopg.Error:
                self.hears = False
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

    async def _hear(self, connection: Connection) -> None:
        """Hand on every notification until the connection is lost."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        self._missed()  # what was said while nobody listened is unknown
        self.hears = True
        self._tried.set()
        loop.add_reader(connection.fileno(), readable.set)
        try:
            while True:
                await readable.wait()
                readable.clear()
                connection.pgconn.consume_input()
                while (heard := connection.pgconn.notifies()) is not None:
                    self._take(heard.extra.decode())
        finally:
            loop.remove_reader(connection.fileno())

    async def close(self) -> None:
        """Listen no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


def _close_opened(opening: "asyncio.Future[Connection]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


LOOK_SECONDS = 5.0
"""How often a waiter looks although it hears: what was lost on the way costs no more than this."""
DEAF_LOOK_SECONDS = 0.25
"""How often a waiter looks while nobody listens."""
NEWS_LOOK_SECONDS = 0.1
"""When the first who waits for an end looks again: who was about to end it may not have known that somebody waits."""
NOTIFY_GAP_SECONDS = 0.005
"""Between two sendings: commits that NOTIFY wait for each other in the server, so a busy process sends few."""
CLOSE_SECONDS = 1.0
"""How long closing waits for the last sending; after that, the others find out by looking."""


def channel_of(schema: str) -> str:
    """The channel of a schema: those who share a database but not a schema do not hear each other."""
    return f"headrace_{schema}"


def payload_of(sender: str, name: Name) -> str:
    """What is sent: by whom, so that a process need not listen to itself, and for which queue."""
    return "/".join((sender, *name))


def payload_of_feed(sender: str, name: Name) -> str:
    """What is sent when a feed has changed: told apart by the empty tenant, which no queue has."""
    return "/".join((sender, "", *name))


class PostgresSignals:
    """Hints, never truth: every waiter looks before it sleeps, and now and then while it does."""

    def __init__(self, settings: ConnectionSettings, lanes: ConnectionThreads, read: Read) -> None:
        self._lanes = lanes
        self._read = read
        self._sender = secrets.token_hex(6)
        self._channel = channel_of(settings.schema)
        self._listening = NotifyListener(settings, self._channel, self._take, self._wake_all)
        self._waiters = Waiters[Name]()
        self._ends = Waiters[JobName]()
        self._awaiting = JobWaiters(lanes)
        self._followers = Waiters[Name]()
        self._looks = Looks(read)
        self._asleep: set[asyncio.Event] = set()
        self._unsent: set[Name] = set()
        self._unsent_ends: dict[Name, list[str]] = {}
        self._unsent_feeds: set[Name] = set()
        self._sending: asyncio.Task[None] | None = None
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._waiters) + len(self._ends) + len(self._followers)

    @property
    def asleep(self) -> int:
        """How many waiters have looked and sleep until somebody wakes them."""
        return len(self._asleep)

    def woke(self, names: Iterable[Name], ended: Iterable[EndedJobs] = (), changed: Iterable[FeedName] = ()) -> None:
        """Wake the waiters of this process and tell the others; after the commit, on the event loop."""
        names, feeds = set(names), {(feed.tenant, feed.name) for feed in changed}
        self._followers.wake(feeds)
        self._unsent_feeds |= feeds
        self._waiters.wake(names)
        self._unsent |= names
        for queue, ids, is_awaited in ended:
            if len(self._ends):
                self._ends.wake(names_of(queue, ids))
            if is_awaited:
                self._unsent_ends.setdefault(name_of(queue), []).extend(ids)
        if self._is_unsent() and self._sending is None:
            self._sending = asyncio.create_task(self._send())

    def _is_unsent(self) -> bool:
        return bool(self._unsent or self._unsent_ends or self._unsent_feeds)

    async def _send(self) -> None:
        # What comes while a sending is under way goes with the next one; a lost one costs latency only.
        try:
            while self._is_unsent():
                payloads = [payload_of(self._sender, name) for name in sorted(self._unsent)]
                payloads += [payload_of_feed(self._sender, name) for name in sorted(self._unsent_feeds)]
                for name, ids in self._unsent_ends.items():
                    payloads += [f"{payload_of(self._sender, name)}/{part}" for part in packed(ids)]
                self._unsent, self._unsent_ends, self._unsent_feeds = set(), {}, set()
                with contextlib.suppress(HeadraceError, psycopg.Error):
                    await self._lanes.run(partial(self._notify, payloads))
                if not self._is_closing:
                    await asyncio.sleep(NOTIFY_GAP_SECONDS)
        finally:
            self._sending = None

    def _notify(self, payloads: list[str], connection: Connection) -> None:
        connection.execute(
            "SELECT pg_notify(%s, payload) FROM unnest(%s::text[]) AS payload", (self._channel, payloads)
        )

    async def wait(self, queues: Sequence[Queue], timeout_ms: int) -> bool:
        names = check_wait(queues, timeout_ms)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        known_ms: int | None = None
        looks = 0
        with self._waiters.watching(names) as event:
            await self._listening.begin()
            while True:
                ready, later_ms = await self._read(lambda tx: (has_work(tx, queues), next_later_ms(tx, queues)))
                # Somebody unheard may have enqueued something for a time before the one that the caller waits for.
                earlier = later_ms is not None and (known_ms is None or later_ms < known_ms)
                if ready or event.is_set() or (earlier and looks):
                    return True
                looks, known_ms = looks + 1, later_ms
                left = deadline - loop.time()
                if left <= 0:
                    return False
                if await self._is_woken(event, left):
                    return True

    async def ended(self, queue: Queue, ids: Sequence[str], timeout_ms: int) -> bool:
        check_ended(queue, ids, timeout_ms)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        with self._ends.watching(names_of(queue, ids)) as event:
            if timeout_ms:
                await self._listening.begin()
            while True:
                is_news = timeout_ms > 0 and await self._awaiting.say(name_of(queue))
                if await self._read(lambda tx: has_ended(tx, queue, ids)) or event.is_set():
                    return True
                left = deadline - loop.time()
                if left <= 0:
                    return False
                if await self._is_woken(event, min(left, NEWS_LOOK_SECONDS) if is_news else left):
                    return True

    async def changed(self, feed: FeedName, after: FeedCursor | None, timeout_ms: int) -> bool:
        check_changed(feed, after, timeout_ms)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        with self._followers.watching([(feed.tenant, feed.name)]) as event:
            if timeout_ms:
                await self._listening.begin()
            while True:
                if await self._looks.has_changed(feed, after) or event.is_set():
                    return True
                left = deadline - loop.time()
                if left <= 0:
                    return False
                if await self._is_woken(event, left):
                    return True

    async def _is_woken(self, event: asyncio.Event, seconds: float) -> bool:
        """Sleep until it is time to look again, or somebody wakes."""
        self._asleep.add(event)
        try:
            return await is_set_within(
                event, min(seconds, LOOK_SECONDS if self._listening.hears else DEAF_LOOK_SECONDS)
            )
        finally:
            self._asleep.discard(event)

    def _wake_all(self) -> None:
        for event in self._asleep:
            event.set()

    def _take(self, payload: str) -> None:
        sender, *said = payload.split("/", 3)  # neither tenants nor queues hold slashes, ids may
        if sender == self._sender:
            return
        match said:
            case ["", tenant, name]:
                self._followers.wake([(tenant, name)])
            case [tenant, name]:
                self._waiters.wake([(tenant, name)])
            case [tenant, name, ids]:
                self._ends.wake((tenant, name, id) for id in ids.split("\n"))

    async def close(self) -> None:
        """Stop listening, and sending too once others were told; waiters find the store closed when they look."""
        self._is_closing = True
        if self._sending is not None:
            # A process that enqueues and ends must be heard as well.
            await asyncio.wait([self._sending], timeout=CLOSE_SECONDS)
        await self._listening.close()
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
