"""Guards uvicorn's connections against slow and huge requests, which it would keep open without bound."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.model.limits import HEAD_BYTES_MAX, REQUEST_RECEIVE_S, REQUEST_SEND_S


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a bound on the head of a request, a time in which it must have arrived whole, and one in
    which an answer must be taken."""

    _head_bytes = 0
    _is_in_head = True
    _deadline: asyncio.TimerHandle | None = None
    _send_deadline: asyncio.TimerHandle | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.access_log = False  # uvicorn writes whole queries, which may hold a token, wherever logs have a handler

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and (self._is_in_head or self._is_receiving):
            self._deadline = self.loop.call_later(REQUEST_RECEIVE_S, self._refuse, b"408 Request Timeout")
        if self._is_in_head:
            end = data.find(b"\r\n\r\n")
            self._head_bytes += len(data) if end < 0 else end
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse(b"431 Request Header Fields Too Large")
                return
        super().data_received(data)

    @property
    def _is_receiving(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None and cycle.more_body

    def on_message_begin(self) -> None:
        self._is_in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._is_in_head, self._head_bytes = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_head = True
        self._stop_deadline()
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._send_deadline is None:
            self._send_deadline = self.loop.call_later(REQUEST_SEND_S, self._cut)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_send_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        self._stop_send_deadline()
        super().connection_lost(exc)

    def _refuse(self, status: bytes) -> None:
        if not self.transport.is_closing():
            cycle: Any = self.cycle
            if cycle is None or cycle.response_complete or not cycle.response_started:
                self.transport.write(b"HTTP/1.1 " + status + b"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()

    def _cut(self) -> None:
        self.transport.abort()

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_send_deadline(self) -> None:
        if self._send_deadline is not None:
            self._send_deadline.cancel()
            self._send_deadline = None
