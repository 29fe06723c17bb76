"""Handlers: which function works on which kind of job, where it runs, and how heavy it is."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import Struct

from headrace.client.arguments import Arguments, Style
from headrace.client.codec import JSON, Codec
from headrace.model.errors import BadConfig, Refused
from headrace.model.limits import CAPACITY_MAX, KIND_CHARS_MAX
from headrace.model.names import Queue
from headrace.model.validate import bounded_repr, check_int, check_text, nearest

Mode = Literal["async", "thread", "process"]
FAIL_KIND = "headrace.fail"
"""The kind of the jobs on a fail queue, each of which tells of a death."""
KINDS_NAMED_MAX = 12


class Handler(Struct, frozen=True):
    """A function that works on jobs of one kind; make one with `handler_of`."""

    kind: str
    function: Callable[..., Any]
    mode: Mode
    arguments: Arguments[Any]
    codec: Codec
    weight: int = 1
    """Units of a worker's capacity that a job of this kind takes."""

    @property
    def target(self) -> str:
        """Where another process finds the function: module and name."""
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
    """The handler that `function` is: a coroutine function runs on the worker's loop, a plain one in a thread, and
    with `process` either runs in a process of its own, which can be killed when its time is over."""
    check_text("kind", kind, KIND_CHARS_MAX)
    if not callable(function):
        raise Refused("bad_handler", f"the handler of {kind!r} must be a function; found {bounded_repr(function)}")
    check_int("weight", weight, 1, CAPACITY_MAX)
    # An object may be called like a coroutine function, too.
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
    """The handlers of a worker, by kind; and those for deaths, by queue."""

    def __init__(self) -> None:
        self._by_kind: dict[str, Handler] = {}
        self._for_deaths: dict[Queue, Handler] = {}
        self._homes: dict[Queue, list[str]] = {}

    def register(self, handler: Handler, *queues: Queue) -> None:
        """Let `handler` work on its kind, from now on instead of another one; `queues` are where such jobs are
        enqueued, and are claimed from when the worker is not told otherwise."""
        self._by_kind[handler.kind] = handler
        for queue in queues:
            home = self._homes.setdefault(queue, [])
            if handler.kind not in home:
                home.append(handler.kind)

    def register_fail(self, handler: Handler, queue: Queue) -> None:
        """Let `handler` be told of the deaths on `queue`; its worker claims from the fail queue, too."""
        self._for_deaths[queue.fail_queue] = handler

    def find(self, queue: Queue, kind: str) -> Handler | None:
        """Who works on such a job."""
        if queue.is_fail_queue:
            return self._for_deaths.get(queue)
        return self._by_kind.get(kind)

    def of_queue(self, queue: Queue) -> list[Handler]:
        """Those that jobs of a queue may need: the ones at home there, else all."""
        if queue.is_fail_queue:
            return [self._for_deaths[queue]] if queue in self._for_deaths else []
        kinds: Iterable[str] = self._homes.get(queue) or self._by_kind
        return [self._by_kind[kind] for kind in kinds]

    @property
    def queues(self) -> list[Queue]:
        """Where jobs of these handlers are enqueued, in order of registration, without fail queues."""
        return list(self._homes)

    @property
    def fail_queues(self) -> list[Queue]:
        """The fail queues on which deaths are told."""
        return list(self._for_deaths)

    def __len__(self) -> int:
        return len(self._by_kind) + len(self._for_deaths)

    def unknown(self, kind: str) -> str:
        """What is said of a kind that nobody works on, with the nearest one that somebody does."""
        known = sorted(self._by_kind)
        near = nearest(kind, known)
        hint = f"; did you mean {near!r}?" if near else ";"
        more = f" and {len(known) - KINDS_NAMED_MAX} more" if len(known) > KINDS_NAMED_MAX else ""
        return f"no handler for kind {kind!r}{hint} Known kinds: {', '.join(known[:KINDS_NAMED_MAX]) or 'none'}{more}"
