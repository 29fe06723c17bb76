"""Handlers: the function for each kind of job, with its mode and weight, and the middleware around it."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from headrace.client.arguments import Arguments, Style
from headrace.client.codec import JSON, Codec
from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import CAPACITY_MAX, KIND_CHARS_MAX
from headrace.model.names import Queue
from headrace.model.validate import bounded_repr, check_int, check_text, nearest
from headrace.worker.context import Context

Mode = Literal["async", "thread", "process"]
KINDS_NAMED_MAX = 12


class Handler(Struct, frozen=True):
    """A function that handles jobs of one kind; built by `handler_of`."""

    kind: str
    function: Callable[..., Any]
    mode: Mode
    arguments: Arguments[Any]
    codec: Codec
    weight: int = 1
    """Units of a worker's capacity that a job of this kind takes."""

    @property
    def target(self) -> str:
        """The module and name by which another process finds the function."""
        return f"{self.function.__module__}:{self.function.__qualname__}"


def handler_of(
    kind: str,
    function: Callable[..., Any],
    *,
    process: bool = False,
    weight: int = 1,
    codec: Codec = JSON,
    style: Style = "named",
) -> Handler:
    """The handler of a function: a coroutine function runs on the worker's loop, a plain function in a thread, and with
    `process` either runs in its own process, which can be killed at the time-out."""
    check_text("kind", kind, KIND_CHARS_MAX)
    if not callable(function):
        raise Refused("bad_handler", f"the handler of {kind!r} must be a function; found {bounded_repr(function)}")
    check_int("weight", weight, 1, CAPACITY_MAX)
    # An object may have a coroutine function as its `__call__`.
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
    mode: Mode = "process" if process else "async" if is_async else "thread"
    handler = Handler(kind, function, mode, Arguments.of(function, codec, style), codec, weight)
    if process and "<" in handler.target:
        raise BadConfig(
            f"the handler of {kind!r} is to run in another process, which cannot find {handler.target!r};"
            " define it at the top of a module"
        )
    return handler


class Handlers:
    """The handlers of a worker by kind, and its fail handlers by queue."""

    def __init__(self) -> None:
        self._by_kind: dict[str, Handler] = {}
        self._by_fail_queue: dict[Queue, Handler] = {}
        self._kinds_by_queue: dict[Queue, list[str]] = {}

    def register(self, handler: Handler, *queues: Queue) -> None:
        """Register a handler, in place of an earlier one of its kind; `queues` are the queues of its jobs, from which
        the worker claims by default."""
        self._by_kind[handler.kind] = handler
        for queue in queues:
            kinds = self._kinds_by_queue.setdefault(queue, [])
            if handler.kind not in kinds:
                kinds.append(handler.kind)

    def register_fail(self, handler: Handler, queue: Queue) -> None:
        """Register a fail handler for `queue`; its worker claims from the fail queue, too."""
        self._by_fail_queue[queue.fail_queue] = handler

    def find(self, queue: Queue, kind: str) -> Handler | None:
        """The handler of such a job; None if none is registered."""
        if queue.is_fail_queue:
            return self._by_fail_queue.get(queue)
        return self._by_kind.get(kind)

    def of_queue(self, queue: Queue) -> list[Handler]:
        """The handlers that jobs of a queue may need: those registered for it, else all."""
        if queue.is_fail_queue:
            return [self._by_fail_queue[queue]] if queue in self._by_fail_queue else []
        kinds: Iterable[str] = self._kinds_by_queue.get(queue) or self._by_kind
        return [self._by_kind[kind] for kind in kinds]

    @property
    def queues(self) -> list[Queue]:
        """The queues of these handlers, in order of registration, without fail queues."""
        return list(self._kinds_by_queue)

    @property
    def fail_queues(self) -> list[Queue]:
        """The fail queues that have a fail handler."""
        return list(self._by_fail_queue)

    def __len__(self) -> int:
        return len(self._by_kind) + len(self._by_fail_queue)

    def describe_unknown(self, kind: str) -> str:
        """The sentence for a kind without a handler, with the most similar known kind."""
        known = sorted(self._by_kind)
        near = nearest(kind, known)
        hint = f"; did you mean {near!r}?" if near else ";"
        more = f" and {len(known) - KINDS_NAMED_MAX} more" if len(known) > KINDS_NAMED_MAX else ""
        return f"no handler for kind {kind!r}{hint} Known kinds: {', '.join(known[:KINDS_NAMED_MAX]) or 'none'}{more}"


Next = Callable[[Context], Awaitable[Any]]
Middleware = Callable[[Context, Next], Any]
"""`async def m(context, call_next): … return await call_next(context)`, or a plain function that returns what
`call_next(context)` returns. If it does not call `call_next`, its own result replaces the handler's. Outside of all
middleware the worker turns exceptions into outcomes and enforces the time-out."""


def wrap_handler(middleware: Sequence[Middleware], innermost: Next) -> Next:
    """The handler wrapped in its middleware."""
    chain = innermost
    for each in reversed(middleware):
        chain = _wrap_one(each, chain)
    return chain


def _wrap_one(each: Middleware, call_next: Next) -> Next:
    async def call(context: Context) -> Any:
        result = each(context, call_next)
        return await result if inspect.isawaitable(result) else result

    return call
