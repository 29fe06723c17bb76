"""Sessions of a PostgreSQL server that outlive the stores of tests: to start one takes the server longer than most
tests, and everything it had prepared is forgotten with it."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from psycopg.pq import TransactionStatus

from headrace.stores.postgres import lane
from headrace.stores.postgres.connect import Connection, Settings, connect

_KEPT: dict[Settings, list[Connection]] = defaultdict(list)


@contextmanager
def kept_sessions() -> Iterator[None]:
    """A store that is opened meanwhile takes sessions of stores before it, and leaves its own behind.

    Nothing else is spared: the store is a new one that knows nothing, and each of its sessions is met as a new one is.
    """
    with patch.object(lane, "pool_of", KeptPool), patch.object(lane, "connect", _Greeted):
        yield


class _Greeted:
    """Stands for the first connection, which only finds out whether there is a server."""

    def __init__(self, settings: Settings) -> None:
        """There is one: the tests have started it."""

    def close(self) -> None:
        """Nothing was opened."""


class KeptPool:
    """What a store sees of its pool."""

    def __init__(self, settings: Settings, meet: Callable[[Connection], object]) -> None:
        self._settings = settings
        self._meet = meet
        self._lock = threading.Lock()
        self._idle: list[Connection] = []

    def open(self) -> None:
        """Sessions come when they are asked for."""

    def getconn(self) -> Connection:
        """A session that is idle, one of an earlier store, or a new one."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            kept = _KEPT[self._settings]
            connection = kept.pop() if kept else None
        connection = connection or connect(self._settings)
        self._meet(connection)
        return connection

    def putconn(self, connection: Connection) -> None:
        """Take a session back, unless something is amiss with it."""
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            connection.close()
            return
        with self._lock:
            self._idle.append(connection)

    def close(self, _: float) -> None:
        """Leave the sessions to the next store."""
        with self._lock:
            _KEPT[self._settings] += self._idle
            self._idle.clear()
