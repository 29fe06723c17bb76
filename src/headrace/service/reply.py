"""Writes answers: encoded, compressed, with their headers, and without a body for HEAD and unchanged resources."""

import gzip
import re
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any

from headrace.model.limits import GZIP_BYTES_MIN, REQUEST_ID_CHARS_MAX
from headrace.model.names import random_bytes
from headrace.service.operation import Header, Reply
from headrace.service.problems import RequestProblem
from headrace.wire.content import JSON_FORMAT, Format

Send = Callable[[dict[str, Any]], Awaitable[None]]
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,%d}" % REQUEST_ID_CHARS_MAX)
_PROCESS, _NUMBERS = random_bytes(6).hex().encode(), count(1)
"""Ids of requests are told apart, and are no secrets: drawing each costs as much as a look-up of its token."""
_ALWAYS: tuple[Header, ...] = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


def request_id_of(headers: Mapping[bytes, bytes]) -> bytes:
    """The caller's id of the request if it is a plain one, else a new one."""
    given = headers.get(b"x-request-id", b"")
    return given if _REQUEST_ID.fullmatch(given) else b"%s-%x" % (_PROCESS, next(_NUMBERS))


class Answer:
    """Writes the one answer of a request."""

    def __init__(self, send: Send, method: str, headers: Mapping[bytes, bytes], own: tuple[Header, ...]) -> None:
        self._send = send
        self._method = method
        self._headers = headers
        self._own = own
        self.request_id = request_id_of(headers)
        self.status = 0
        """The status that was sent; 0 before."""

    def add(self, headers: tuple[Header, ...]) -> None:
        """Add headers to the answer, whatever it will be."""
        self._own += headers

    async def send_reply(self, reply: Reply, form: Format) -> None:
        """Send the reply of a handler."""
        body = b"" if reply.body is None else reply.body if isinstance(reply.body, bytes) else form.encode(reply.body)
        headers: list[Header] = [*reply.headers]
        status = reply.status
        if reply.etag is not None:
            headers.append((b"etag", reply.etag.encode()))
            if status == 200 and self._method in ("GET", "HEAD") and self._knows(reply.etag):
                status, body = 304, b""
        if body and not any(name == b"content-type" for name, _ in headers):
            headers.append((b"content-type", form.media_type.encode()))
        await self._write(status, body, headers)

    async def send_problem(self, problem: RequestProblem) -> None:
        """Send a problem."""
        body = JSON_FORMAT.encode(problem.answer(self.request_id.decode()))
        await self._write(problem.status, body, [(b"content-type", b"application/problem+json"), *problem.headers])

    async def start_stream(self, headers: list[Header]) -> None:
        """Send the head of an answer whose body follows in parts."""
        self.status = 200
        await self._send({"type": "http.response.start", "status": 200, "headers": [*headers, *self._common()]})

    async def send_part(self, part: bytes, *, more: bool = True) -> None:
        """Send a part of a streamed body."""
        await self._send({"type": "http.response.body", "body": part, "more_body": more})

    def _knows(self, etag: str) -> bool:
        known = self._headers.get(b"if-none-match", b"").decode("latin-1")
        return known.strip() == "*" or etag in [each.strip().removeprefix("W/") for each in known.split(",")]

    def _common(self) -> list[Header]:
        return [(b"x-request-id", self.request_id), *_ALWAYS, *self._own]

    async def _write(self, status: int, body: bytes, headers: list[Header]) -> None:
        if len(body) >= GZIP_BYTES_MIN and _accepts_gzip(self._headers.get(b"accept-encoding", b"")):
            body = gzip.compress(body, 1, mtime=0)
            headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
        if status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(body)))
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers + self._common()})
        await self._send({"type": "http.response.body", "body": b"" if self._method == "HEAD" else body})


def _accepts_gzip(accept: bytes) -> bool:
    for each in accept.lower().split(b","):
        name, _, quality = each.partition(b";")
        if name.strip() == b"gzip":
            return quality.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False
