"""The ASGI application of the service: finds the operation of a request, checks the caller, and answers."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.routing import Route, Router

from headrace.client.batching import Coalescer
from headrace.client.parked_claims import ParkedClaims
from headrace.client.queue_metrics import QueueMetrics
from headrace.model.clock import Clock, SystemClock, monotonic_ms
from headrace.model.limits import REQUEST_PATH_BYTES_MAX
from headrace.model.names import DEFAULT_TENANT
from headrace.service.auth import Authenticator
from headrace.service.body import accepted_format, decode_body, format_of, read_body, read_query, unzip
from headrace.service.caller import Caller
from headrace.service.cors import Cors
from headrace.service.metrics import ServiceMetrics
from headrace.service.operation import Call, Header, Operation
from headrace.service.polls import Admission, PolledClient, Shutdown
from headrace.service.problems import RequestProblem, problem_of
from headrace.service.queue_names import KnownQueues
from headrace.service.rates import RateLimits
from headrace.service.reply import Answer, Send
from headrace.service.revocation import Revocations
from headrace.service.settings import ServiceSettings
from headrace.service.table import OPERATIONS
from headrace.service.tokens import Issuer
from headrace.stores.contract.store import Store
from headrace.wire.content import JSON_FORMAT

log = logging.getLogger("headrace.service")
Scope = dict[str, Any]
_ANONYMOUS = Caller(tenant="default", subject="", scopes=frozenset(), expires_at_s=0)


class Service:
    """An ASGI application over an open store, which it does not close. Belongs to the store's event loop."""

    def __init__(
        self,
        store: Store,
        issuers: Iterable[Issuer],
        settings: ServiceSettings | None = None,
        *,
        clock: Clock | None = None,
        queue_metrics: QueueMetrics | None = None,
    ) -> None:
        self.store = store
        self.queue_metrics = queue_metrics or QueueMetrics(store, [], DEFAULT_TENANT)
        self.settings = settings or ServiceSettings()
        self.clock = clock or SystemClock()
        self.auth = Authenticator(issuers, self.clock, self.settings.auth_failures_per_minute)
        self.queues = KnownQueues(store)
        self.coalescer = Coalescer(store.jobs)
        self.parked = ParkedClaims(store)
        self.revocations = Revocations(store, self.settings.revocation_ms)
        self.rates = RateLimits(self.settings.rates)
        self.admission = Admission()
        self.shutdown = Shutdown()
        self.metrics = ServiceMetrics()
        self.shared: dict[str, Any] = {}
        """What the handlers of a room share, by the room's name."""
        self._cors = Cors(self.settings.cors_origins)
        self.own_headers: tuple[Header, ...] = ((b"headrace-version", self.settings.version.encode()),)
        by_path: dict[str, dict[str, Operation]] = {}
        for operation in OPERATIONS:
            by_path.setdefault(operation.route, {})[operation.method] = operation
        # Exact paths are looked up first: Starlette tries its routes one after the other, and workers call a few paths.
        self._exact = {
            (path, method): methods for path, methods in by_path.items() if "{" not in path for method in methods
        }
        routes = [_ResourceRoute(path, _Resource(self, each), methods=[*each]) for path, each in by_path.items()]
        self._router = Router(routes, redirect_slashes=False, default=_Missing(self), lifespan=self._lifespan)

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer one request, or run for the life of the server."""
        if scope["type"] == "lifespan":
            await self._router.lifespan(scope, receive, send)
        elif scope["type"] == "http":
            # Ids may hold a slash, which is %2F in a path: segments are cut before they are decoded.
            raw: bytes = scope.get("raw_path") or scope["path"].encode()
            path = raw.decode("latin-1").removeprefix(scope.get("root_path", ""))
            methods = self._exact.get((path, scope["method"]))
            if methods is not None:
                await self.answer(methods, {}, scope, receive, send)
            else:
                await self._router({**scope, "path": path, "root_path": ""}, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1002})

    @asynccontextmanager
    async def _lifespan(self, _: Any) -> AsyncIterator[None]:
        refreshing = asyncio.get_running_loop().create_task(self._refresh_keys())
        try:
            yield
        finally:
            self.shutdown.begin()
            await self.parked.close()
            refreshing.cancel()
            await asyncio.gather(refreshing, return_exceptions=True)

    async def _refresh_keys(self) -> None:
        while True:
            await self.auth.refresh_all()
            await asyncio.sleep(10)

    async def answer(
        self, methods: Mapping[str, Operation], path: Mapping[str, str], scope: Scope, receive: Any, send: Send
    ) -> None:
        """Answer a request to a path with these operations by method."""
        started_ms = monotonic_ms()
        headers, authorizations, repeated = _headers(scope["headers"])
        method: str = scope["method"]
        answer = Answer(send, method, headers, self.own_headers + self._cors.headers(headers.get(b"origin")))
        operation: Operation | None = None
        try:
            _check_single(repeated)
            operation = _operation(methods, method)
            if operation is None:
                await answer.send_reply(self._cors.preflight([*methods]), JSON_FORMAT)
                return
            self.admission.enter()
            try:
                await self._call(operation, path, scope, receive, answer, headers, authorizations)
            finally:
                self.admission.leave()
        except (ConnectionResetError, asyncio.CancelledError):
            raise
        except Exception as error:
            problem = problem_of(error)
            if problem.name == "fault":
                log.exception("request %s failed", answer.request_id.decode(), exc_info=error)
            if answer.status:
                raise  # the answer has begun: only a cut connection tells the client
            await answer.send_problem(problem)
        finally:
            name = "none" if operation is None else operation.name
            self.metrics.count(name, answer.status, monotonic_ms() - started_ms)

    async def _call(
        self,
        operation: Operation,
        path: Mapping[str, str],
        scope: Scope,
        receive: Any,
        answer: Answer,
        headers: dict[bytes, bytes],
        authorizations: list[bytes],
    ) -> None:
        client = scope.get("client")
        caller = _ANONYMOUS
        if not operation.is_public:
            caller = self.auth.caller(authorizations, client[0] if client else "")
            caller = self._tenant(caller, headers, operation)
            caller.check_scope(operation.scopes)
            await self.revocations.check(caller, self.clock.now_ms())
        names = {name: _unquote(text) for name, text in path.items()}
        write_format = accepted_format(headers.get(b"accept"))
        query = read_query(operation, scope["query_string"])
        body, read_format = None, JSON_FORMAT
        if operation.body is not None:
            data = await read_body(receive, operation.body_bytes_max)
            if headers.get(b"content-encoding", b"identity") == b"gzip":
                data = unzip(data, operation.body_bytes_max)
            elif headers.get(b"content-encoding", b"identity") != b"identity":
                raise RequestProblem("unsupported_media_type", "the body's Content-Encoding must be gzip or none")
            if not data and operation.is_body_optional:
                data, read_format = b"{}", JSON_FORMAT
            else:
                read_format = format_of(headers.get(b"content-type"))
            body = decode_body(operation, data, read_format)
        if not operation.is_public:
            answer.add(self.rates.take(caller.tenant, operation.rate, _items(body), self.clock.now_ms()))
        call = Call(
            service=self,
            operation=operation,
            caller=caller,
            path=names,
            query=query,
            body=body,
            headers=headers,
            read_format=read_format,
            write_format=write_format,
        )
        if operation.is_stream:
            await operation.handler(call).send(receive, answer)  # type: ignore[attr-defined]  # a stream sends itself
            return
        if operation.is_poll:
            async with self.admission.poll(caller.tenant), PolledClient(receive) as client_left:
                call.gone = client_left
                reply = await operation.handler(call)
        else:
            reply = await operation.handler(call)
        await answer.send_reply(reply, write_format)

    def _tenant(self, caller: Caller, headers: Mapping[bytes, bytes], operation: Operation) -> Caller:
        """The caller, for an operator in the tenant that it names; for anybody else that header changes nothing."""
        if operation.is_operators and not caller.is_operator:
            raise RequestProblem("not_operator", "only operators may do this; use an operator's token")
        named = headers.get(b"headrace-tenant")
        if named is None or not caller.is_operator:
            return caller
        crossed = caller.cross(named.decode("latin-1"))
        log.info("operator %s: %s in tenant %s", caller.subject, operation.name, crossed.tenant)
        return crossed


def _operation(methods: Mapping[str, Operation], method: str) -> Operation | None:
    """The operation of a method; None for OPTIONS."""
    found = methods.get("GET" if method == "HEAD" else method)
    if found is not None:
        return found
    if method == "OPTIONS":
        return None
    allow = sorted({*methods, "OPTIONS", *(["HEAD"] if "GET" in methods else [])})
    raise RequestProblem(
        "method_not_allowed",
        f"the path has no method {method[:20]!r}; use {' or '.join(allow)}",
        ((b"allow", ", ".join(allow).encode()),),
        allow=allow,
    )


class _ResourceRoute(Route):
    """A route that answers a missing method itself, with our problem."""

    async def handle(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


class _Resource:
    """The operations of a path with parameters, as an endpoint of Starlette."""

    def __init__(self, service: Service, methods: Mapping[str, Operation]) -> None:
        self._service = service
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        await self._service.answer(self._methods, scope["path_params"], scope, receive, send)


class _Missing:
    """Answers paths that no operation has."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Any, _receive: Any, send: Any) -> None:
        headers, *_ = _headers(scope["headers"])
        answer = Answer(send, scope["method"], headers, self._service.own_headers)
        await answer.send_problem(
            RequestProblem("not_found", "there is nothing at this path; see /v1/openapi.json for all paths")
        )
        self._service.metrics.count("none", answer.status, 0)


_SINGLE = frozenset({b"content-type", b"content-encoding", b"content-length", b"idempotency-key", b"headrace-tenant"})


def _headers(pairs: Iterable[Header]) -> tuple[dict[bytes, bytes], list[bytes], str | None]:
    """The headers by name, all Authorization headers, and the name of one that must not be repeated and is."""
    found: dict[bytes, bytes] = {}
    authorizations: list[bytes] = []
    repeated = None
    for name, value in pairs:
        if name == b"authorization":
            authorizations.append(value)
        elif name in found:
            if name in _SINGLE:
                repeated = name.decode("latin-1")
            found[name] += b", " + value
        else:
            found[name] = value
    return found, authorizations, repeated


def _check_single(repeated: str | None) -> None:
    if repeated is not None:
        raise RequestProblem("bad_header", f"the header {repeated!r} is given twice; give it once")


def _unquote(text: str) -> str:
    if len(text) > REQUEST_PATH_BYTES_MAX:
        raise RequestProblem("bad_path", f"the path has more than {REQUEST_PATH_BYTES_MAX:,} bytes; shorten it")
    try:
        return unquote_to_bytes(text.encode("latin-1")).decode()
    except UnicodeDecodeError:
        raise RequestProblem("bad_path", "the path is not UTF-8; percent-encode names as UTF-8") from None


def _items(body: object) -> int:
    """The items of a batch, which rates count; 1 for any other body."""
    field = _list_field(type(body))  # type: ignore[arg-type]  # every class can be hashed
    return 1 if field is None else max(len(getattr(body, field) or ()), 1)


@cache
def _list_field(kind: type[Any]) -> str | None:
    names = getattr(kind, "__struct_fields__", ())
    return next((name for name in ("jobs", "ids", "leases", "settlements", "items", "moves") if name in names), None)
