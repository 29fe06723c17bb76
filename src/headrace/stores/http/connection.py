"""Calls the service: one request a call, never repeated in silence, its problem raised as our error."""

import io
import ssl
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from msgspec import Struct
from yarl import URL

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, Refused, StoreUnavailable
from headrace.model.feed import FeedName
from headrace.model.names import Queue, Shard
from headrace.model.validate import check_time
from headrace.stores.http.url import HttpOptions
from headrace.wire.content import PACKED_FORMAT

T = TypeVar("T")
Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
_PREFIX = "urn:headrace:problem:"
_UNAVAILABLE = frozenset(
    ("unauthorized", "store_unavailable", "busy", "draining", "rate_limited", "too_many_polls", "auth_failures")
)
_WHOLE_BYTES_MAX = 512 * 1024
_IDLE_S = 30
"""How long an unused connection is kept: less than the service keeps it, so that it is not closed while we write."""


class ProblemBody(Struct, frozen=True):
    """What is read of a problem."""

    type: str = ""
    detail: str = ""
    reason: str | None = None
    unknown: list[str] | None = None


class Request(Struct, frozen=True, kw_only=True):
    """A call: `ids` are those whose outcome is unknown if the answer is lost; None marks a call that only reads."""

    method: Method = "POST"
    path: str
    query: Mapping[str, object] = {}
    body: Any = None
    headers: Mapping[str, str] = {}
    ids: Sequence[str] | None = None
    now_ms: int | None = None
    timeout_ms: int | None = None
    """Of a wait, which gets a connection of its own."""


class ServiceConnections:
    """ServiceConnections to a service: a few for calls, as many as needed for waits."""

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._token = options.read_token()
        self._calls = self._session(options.connections)
        self._waits = self._session(0)
        self.tenant = ""
        self.subject = ""

    def _session(self, limit: int) -> aiohttp.ClientSession:
        context: ssl.SSLContext | bool = True
        if self._options.ca is not None:
            try:
                context = ssl.create_default_context(cafile=self._options.ca)
            except OSError as error:
                raise BadConfig("the file of ca cannot be read as certificates; check its name") from error
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, keepalive_timeout=_IDLE_S, ssl=context),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        session._retry_connection = False
        return session

    async def close(self) -> None:
        """Close all connections."""
        await self._calls.close()
        await self._waits.close()

    def check_tenant(self, tenant: str) -> None:
        """Refuse a tenant other than the token's, before anything is sent."""
        if tenant != self.tenant:
            raise Refused(
                "foreign_tenant",
                f"the token is for tenant {self.tenant!r}, not for {tenant!r}; use a token of that one",
            )

    def queue_path(self, queue: Queue) -> str:
        """The path of a queue."""
        self.check_tenant(queue.tenant)
        return f"/queues/{quote(queue.full_name, safe='')}"

    def shard_path(self, shard: Shard) -> str:
        """The path of a shard."""
        return f"{self.queue_path(shard.queue)}/shards/{shard.index}"

    def feed_path(self, feed: FeedName) -> str:
        """The path of a feed."""
        self.check_tenant(feed.tenant)
        return f"/feeds/{quote(feed.name, safe='*')}"

    async def call(self, request: Request, answer: Callable[..., T]) -> T:
        """The answer to a call."""
        status, body = await self._send(request, self._token)
        if status == 401:
            # Nothing has happened, so the call may be sent once more with a newer token.
            token = self._options.read_token()
            if token != self._token:
                self._token = token
                status, body = await self._send(request, token)
        if status >= 300:
            raise _error_of(status, body, request)
        if status == 204:
            return None  # type: ignore[return-value]  # operations without an answer are called with type None
        try:
            decoded: T = _decoder(answer).decode(body)
        except (msgspec.MsgspecError, ValueError, HeadraceError) as error:
            raise _lost(request, "it answered something that is no answer of a service") from error
        return decoded

    async def _send(self, request: Request, token: str) -> tuple[int, bytes]:
        query = {name: _text(value) for name, value in request.query.items() if value is not None}
        url = URL(f"{self._options.base}{request.path}{'?' + urlencode(query) if query else ''}", encoded=True)
        headers = {"authorization": f"Bearer {token}", "accept": PACKED_FORMAT.media_type, **request.headers}
        data: bytes | io.BytesIO | None = None
        if request.body is not None:
            data = PACKED_FORMAT.encode(request.body)
            if len(data) > _WHOLE_BYTES_MAX:
                data = io.BytesIO(data)  # written in pieces, between which other tasks run
            headers["content-type"] = PACKED_FORMAT.media_type
        if request.now_ms is not None:
            check_time("now_ms", request.now_ms)
            headers["headrace-now-ms"] = str(request.now_ms)
        session = self._calls if request.timeout_ms is None else self._waits
        total_s = (self._options.timeout_ms + (request.timeout_ms or 0)) / 1_000
        timeout = aiohttp.ClientTimeout(total=total_s, sock_connect=self._options.timeout_ms / 1_000)
        try:
            async with session.request(
                request.method, url, data=data, headers=headers, allow_redirects=False, timeout=timeout
            ) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise StoreUnavailable(f"the service at {url.host} cannot be reached; is it running?") from error
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as error:
            raise _lost(request, "it did not answer") from error
        except RuntimeError as error:
            if not session.closed:
                raise
            raise StoreUnavailable("the store is closed; open it again") from error


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


@cache
def _decoder(answer: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(answer)


def _lost(request: Request, why: str) -> HeadraceError:
    if request.ids is None:
        return StoreUnavailable(f"the service was asked and {why}; try again")
    return OutcomeUnknown(f"the service was asked and {why}; check, or repeat", unknown=list(request.ids))


def _error_of(status: int, body: bytes, request: Request) -> HeadraceError:
    """Our error for a problem. A status alone is not trusted: a proxy may have answered."""
    try:
        problem = msgspec.json.decode(body, type=ProblemBody)
    except (msgspec.MsgspecError, ValueError):
        problem = ProblemBody()
    name = problem.type.removeprefix(_PREFIX) if problem.type.startswith(_PREFIX) else ""
    if name == "unauthorized":
        return StoreUnavailable("the service did not accept the token; renew it")
    if name in _UNAVAILABLE:
        return StoreUnavailable(problem.detail)
    if name == "outcome_unknown" and request.ids is not None:
        return OutcomeUnknown(problem.detail, unknown=problem.unknown or list(request.ids))
    if name in ("", "fault", "outcome_unknown"):
        is_refused = not name and status in (429, 502, 503)
        why = f"it answered with status {status} and no reason"
        return StoreUnavailable(f"the service was asked and {why}") if is_refused else _lost(request, why)
    return Refused(problem.reason or name, problem.detail)
