"""The one connection of a store that listens for NOTIFY; when it is lost, another one is opened."""

import asyncio
from collections.abc import Callable

import psycopg
from psycopg.sql import SQL, Identifier

from headrace.stores.postgres.connect import Connection, Settings, connect

RECONNECT_SECONDS = 0.5


class Listening:
    """Hands on what is said in a channel, and says when something may have been missed."""

    def __init__(
        self, settings: Settings, channel: str, take: Callable[[str], None], missed: Callable[[], None]
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
