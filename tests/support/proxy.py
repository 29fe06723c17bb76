"""Servers that behave badly: one between client and server that loses replies, and one that says one thing only."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self


class Proxy:
    """Passes bytes both ways on a port of its own.

    While `loses_replies` is set, requests arrive and replies vanish; `cuts_on_reply` ends the connection instead when
    the first reply comes. `asked` is set whenever a request has been passed on.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.asked = asyncio.Event()
        self.loses_replies = False
        self.cuts_on_reply = False

    @property
    def url(self) -> str:
        """Where it listens, as a URL."""
        return f"redis://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks)

    def cut(self) -> None:
        """End every connection that is open."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers += [writer, far_writer]
        for work in (self._pass_requests(reader, far_writer), self._pass_replies(far_reader, writer)):
            task = asyncio.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass_requests(self, reader: asyncio.StreamReader, far: asyncio.StreamWriter) -> None:
        while read := await _read(reader):
            far.write(read)
            self.asked.set()
        far.transport.abort()

    async def _pass_replies(self, far: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while read := await _read(far):
            if self.cuts_on_reply:
                break
            if not self.loses_replies:
                writer.write(read)
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(65_536)
    except OSError:
        return b""


@asynccontextmanager
async def saying(answer: bytes) -> AsyncIterator[int]:
    """A server that answers the first request with these bytes, and no other; returns its port."""
    under_way: set[asyncio.Task[object]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        under_way.add(asyncio.current_task())  # type: ignore[arg-type]  # there is one
        await _read(reader)
        writer.write(answer)
        while await _read(reader):
            pass
        writer.transport.abort()

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as listening:
        yield listening.sockets[0].getsockname()[1]
        await asyncio.gather(*under_way)
