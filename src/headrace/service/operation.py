"""Describes operations, and holds a call of one: routes, checks and OpenAPI come from these records."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.limits import REQUEST_BATCH_BYTES_MAX, REQUEST_BYTES_MAX
from headrace.service.caller import SCOPES, Caller
from headrace.stores.contract.store import Store
from headrace.wire.content import Format

if TYPE_CHECKING:
    from headrace.service.app import Service

Header = tuple[bytes, bytes]
Handler = Callable[["Call"], Awaitable["Reply"]]


class Reply(Struct, frozen=True):
    """The answer of a handler: a value to encode, or None for no body."""

    status: int
    body: Any = None
    headers: tuple[Header, ...] = ()
    etag: str | None = None


class NoQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class PageQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """A page of a list."""

    limit: int = 50
    cursor: str | None = None


class Operation(Struct, frozen=True, kw_only=True):
    """An operation: where it is, who may call it, what it takes and answers, and the function that does it."""

    name: str
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    summary: str
    scopes: frozenset[str]
    """One of these is needed; empty for every caller with a token."""
    handler: Handler
    body: Any = None
    query: Any = NoQuery
    answers: dict[int, Any]
    """The type of the body by status; problems apart."""
    problems: tuple[str, ...] = ()
    """Problems besides those that every operation may answer."""
    is_public: bool = False
    """Whether it needs no token."""
    is_poll: bool = False
    is_stream: bool = False
    is_batch: bool = False
    rate: Literal["write", "read", "search", "stream"] = "read"
    is_body_optional: bool = False
    is_operators: bool = False

    def __post_init__(self) -> None:
        unknown = self.scopes - set(SCOPES)
        if unknown or not (self.scopes or self.is_public or self.name == "me"):
            raise ValueError(f"operation {self.name!r} needs scopes that exist; found {sorted(self.scopes)}")

    @property
    def route(self) -> str:
        """The whole path: probes of a container platform know no version."""
        return self.path if self.path.startswith("/health/") else f"/v1{self.path}"

    @property
    def body_bytes_max(self) -> int:
        """The bound on its body."""
        return REQUEST_BATCH_BYTES_MAX if self.is_batch else REQUEST_BYTES_MAX


class Call(Struct, kw_only=True):
    """One call of an operation: the caller, the parameters and the body, all checked."""

    service: "Service"
    operation: Operation
    caller: Caller
    path: dict[str, str]
    query: Any
    body: Any
    headers: dict[bytes, bytes]
    read_format: Format
    write_format: Format
    gone: "asyncio.Future[None] | None" = None
    """Done when the client of a waiting request has left."""

    @property
    def tenant(self) -> str:
        """The tenant of the token: a request has no other place for one."""
        return self.caller.tenant

    @property
    def store(self) -> Store:
        """The store of the service."""
        return self.service.store

    @property
    def now_ms(self) -> int | None:
        """The time that the caller chose, on a service that trusts it; else None, which is the store's clock."""
        text = self.headers.get(b"headrace-now-ms")
        if text is None:
            return None
        if not self.service.settings.trust_now:
            raise Refused("no_now", "the service does not let callers choose the time; leave out Headrace-Now-Ms")
        if not text.isdigit() or len(text) > 15:
            raise Refused("bad_time", "Headrace-Now-Ms must be milliseconds since 1970")
        return int(text)

    @property
    def packed(self) -> bool:
        """Whether the answer is MessagePack."""
        return self.write_format.is_packed


def get(
    name: str,
    path: str,
    summary: str,
    scope: frozenset[str],
    handler: Handler,
    answer: Any,
    *problems: str,
    **more: Any,
) -> Operation:
    """An operation that reads and answers 200."""
    return Operation(
        name=name,
        method="GET",
        path=path,
        summary=summary,
        scopes=scope,
        handler=handler,
        answers={200: answer},
        problems=problems,
        **more,
    )


def post(
    name: str,
    path: str,
    summary: str,
    scope: frozenset[str],
    handler: Handler,
    body: Any,
    answer: Any,
    *problems: str,
    **more: Any,
) -> Operation:
    """An operation with a body that answers 200; it counts as a write unless `rate` says otherwise."""
    fields: dict[str, Any] = {"method": "POST", "answers": {200: answer}, "rate": "write"} | more
    return Operation(
        name=name, path=path, summary=summary, scopes=scope, handler=handler, body=body, problems=problems, **fields
    )


class ShardsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of shards, for a caller that knows the queue: then an unknown queue is not refused."""

    shards: int | None = None


def scopes(*names: str) -> frozenset[str]:
    """Scopes of which a caller needs one."""
    return frozenset(names)
