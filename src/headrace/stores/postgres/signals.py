"""Wake-ups: NOTIFY says that a queue may have work or which jobs have ended, and one listening connection hears it for
all waiters of a store."""

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

import psycopg
from psycopg.sql import SQL, Identifier

from headrace.model.errors import HeadraceError
from headrace.model.names import Queue
from headrace.stores.calls.ended import JobName, check_ended, names_of
from headrace.stores.calls.wait import Name, Waiters, check_wait, has_work, is_set_within, name_of, next_later_ms
from headrace.stores.postgres.connect import Connection, Settings, connect
from headrace.stores.postgres.ended import Awaiting, Ended, has_ended, packed
from headrace.stores.postgres.lane import Lanes
from headrace.stores.transitions.rows import Tx

T = TypeVar("T")
LOOK_SECONDS = 5.0
"""How often a waiter looks although it hears: what was lost on the way costs no more than this."""
DEAF_LOOK_SECONDS = 0.25
"""How often a waiter looks while nobody listens."""
NEWS_LOOK_SECONDS = 0.1
"""When the first who waits for an end looks again: who was about to end it may not have known that somebody waits."""
NOTIFY_GAP_SECONDS = 0.005
"""Between two sendings: commits that NOTIFY wait for each other in the server, so a busy process sends few."""
RECONNECT_SECONDS = 0.5
CLOSE_SECONDS = 1.0
"""How long closing waits for the last sending; after that, the others find out by looking."""


class Read(Protocol):
    """Runs a function that only looks."""

    def __call__(self, look: Callable[[Tx], T], /) -> Awaitable[T]: ...


def channel_of(schema: str) -> str:
    """The channel of a schema: those who share a database but not a schema do not hear each other."""
    return f"headrace_{schema}"


def payload_of(sender: str, name: Name) -> str:
    """What is sent: by whom, so that a process need not listen to itself, and for which queue."""
    return "/".join((sender, *name))


class PostgresSignals:
    """Hints, never truth: every waiter looks before it sleeps, and now and then while it does."""

    def __init__(self, settings: Settings, lanes: Lanes, read: Read) -> None:
        self._settings = settings
        self._lanes = lanes
        self._read = read
        self._sender = secrets.token_hex(6)
        self._channel = channel_of(settings.schema)
        self._waiters = Waiters[Name]()
        self._ends = Waiters[JobName]()
        self._awaiting = Awaiting(lanes)
        self._asleep: set[asyncio.Event] = set()
        self._unsent: set[Name] = set()
        self._unsent_ends: dict[Name, list[str]] = {}
        self._sending: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._hears = False
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._waiters) + len(self._ends)

    @property
    def asleep(self) -> int:
        """How many waiters have looked and sleep until somebody wakes them."""
        return len(self._asleep)

    def woke(self, names: Iterable[Name], ended: Iterable[Ended] = ()) -> None:
        """Wake the waiters of this process and tell the others; after the commit, on the event loop."""
        names = set(names)
        self._waiters.wake(names)
        self._unsent |= names
        for queue, ids, is_awaited in ended:
            if len(self._ends):
                self._ends.wake(names_of(queue, ids))
            if is_awaited:
                self._unsent_ends.setdefault(name_of(queue), []).extend(ids)
        if (self._unsent or self._unsent_ends) and self._sending is None:
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        # What comes while a sending is under way goes with the next one; a lost one costs latency only.
        try:
            while self._unsent or self._unsent_ends:
                payloads = [payload_of(self._sender, name) for name in sorted(self._unsent)]
                for name, ids in self._unsent_ends.items():
                    payloads += [f"{payload_of(self._sender, name)}/{part}" for part in packed(ids)]
                self._unsent, self._unsent_ends = set(), {}
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
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        known_ms: int | None = None
        looks = 0
        with self._waiters.watching(check_wait(queues, timeout_ms)) as event:
            await self._listen()
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
                await self._listen()
            while True:
                is_news = timeout_ms > 0 and await self._awaiting.say(name_of(queue))
                if await self._read(lambda tx: has_ended(tx, queue, ids)) or event.is_set():
                    return True
                left = deadline - loop.time()
                if left <= 0:
                    return False
                if await self._is_woken(event, min(left, NEWS_LOOK_SECONDS) if is_news else left):
                    return True

    async def _is_woken(self, event: asyncio.Event, seconds: float) -> bool:
        """Sleep until it is time to look again, or somebody wakes."""
        self._asleep.add(event)
        try:
            return await is_set_within(event, min(seconds, LOOK_SECONDS if self._hears else DEAF_LOOK_SECONDS))
        finally:
            self._asleep.discard(event)

    async def _listen(self) -> None:
        """Have somebody listen, or know that nobody can at present."""
        if self._listening is None:
            self._listening = asyncio.create_task(self._keep_listening())
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
                self._hears = False
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
        """Wake whoever a notification is for, until the connection is lost."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        # What was said while nobody listened is unknown: everybody looks.
        for event in self._asleep:
            event.set()
        self._hears = True
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

    def _take(self, payload: str) -> None:
        sender, *said = payload.split("/", 3)  # neither tenants nor queues hold slashes, ids may
        if sender == self._sender:
            return
        match said:
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
        for task in (self._listening, self._sending):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


def _close_opened(opening: "asyncio.Future[Connection]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
