"""Handlers that run in their own processes, and a server for a handler that hangs."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn, Self

from headrace.client import tracing
from headrace.worker.context import current


def name() -> str:
    """Return the id of the job."""
    return current().job.id


def speaks() -> None:
    """Write a line to the log."""
    current().log.info("from %s", "afar")


def connect() -> NoReturn:
    """Fail with the URL of a server in the message."""
    raise ConnectionError("cannot connect to postgres://admin:hunter2@db.example/shop?sslpassword=hunter2")


def trace() -> str:
    """Return the trace of the handler."""
    return tracing.current_trace_id() or ""


def raises() -> NoReturn:
    """Fail."""
    raise ValueError("no")


def exits() -> NoReturn:
    """Try to end the program."""
    sys.exit(3)


def dies() -> NoReturn:
    """End the process at once."""
    os._exit(3)


def hangs(port: int) -> NoReturn:
    """Connect to a port and run for ever; the connection closes when the process is gone."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(b"here\n")
        while True:
            signal.pause()


class Caller:
    """The server that `hangs` connects to."""

    def __init__(self) -> None:
        self.here = asyncio.Event()
        self.gone = asyncio.Event()
        self.port = 0

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        self.here.set()
        await reader.read()
        self.gone.set()
        writer.close()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Self]:
        """Listen inside the block."""
        async with await asyncio.start_server(self._answer, "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield self
