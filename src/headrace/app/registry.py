"""The registry of an app: job functions by kind, fail handlers by queue."""

import inspect
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from headrace.app.job_function import JobFunction
from headrace.model.errors import BadConfig
from headrace.model.names import Queue
from headrace.worker.handlers import Handler, Handlers


class FailHandler(Struct, frozen=True):
    """A function called for each dead letter of a queue."""

    queue: Queue
    has_own_shards: bool
    """Whether the decorator sets the number of shards; else it is that of the queue's job functions."""
    handler: Handler


class Registry:
    """The functions of an app. Registering a function again, as when a notebook cell runs twice, replaces it."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobFunction[..., Any]] = {}
        self._fails: dict[tuple[str, str], FailHandler] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def kinds(self) -> list[str]:
        """The kinds of all jobs, in order of definition."""
        return list(self._jobs)

    @property
    def fails(self) -> list[FailHandler]:
        """The fail handlers."""
        return list(self._fails.values())

    def find(self, kind: str) -> JobFunction[..., Any] | None:
        """The job function of a kind."""
        return self._jobs.get(kind)

    def add(self, job: JobFunction[..., Any]) -> None:
        """Register a job function; raises `BadConfig` if another function has its kind."""
        known = self._jobs.get(job.kind)
        if known is not None and not _is_same(known.handler, job.handler):
            raise BadConfig(
                f"two functions have the kind {job.kind!r}: {describe(known.__wrapped__)} and"
                f" {describe(job.__wrapped__)}; give one of them another kind"
            )
        self._jobs[job.kind] = job

    def add_fail(self, fail: FailHandler) -> None:
        """Register a fail handler; raises `BadConfig` if its queue has another."""
        name = fail.queue.tenant, fail.queue.name
        known = self._fails.get(name)
        if known is not None and not _is_same(known.handler, fail.handler):
            raise BadConfig(
                f"two functions handle the dead letters of queue {fail.queue.name!r}:"
                f" {describe(known.handler.function)} and {describe(fail.handler.function)};"
                " a queue has one fail handler"
            )
        self._fails[name] = fail

    def handlers(self, changed: Callable[[Handler], Handler] = lambda handler: handler) -> Handlers:
        """The handlers for a worker, each passed through `changed`."""
        handlers = Handlers()
        for job in self._jobs.values():
            handlers.register(changed(job.handler), job.queue)
        homes = {(queue.tenant, queue.name): queue for queue in handlers.queues}
        for name, fail in self._fails.items():
            handlers.register_fail(
                changed(fail.handler), fail.queue if fail.has_own_shards else homes.get(name, fail.queue)
            )
        return handlers


def describe(function: Callable[..., Any]) -> str:
    """A function's name, file and line."""
    name = f"{function.__module__}.{function.__qualname__}"
    code = getattr(inspect.unwrap(function), "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def in_worker_process(handler: Handler) -> Handler:
    """The same handler, run in the worker's own process."""
    if handler.mode != "process":
        return handler
    return replace(handler, mode="async" if inspect.iscoroutinefunction(handler.function) else "thread")


def _is_same(known: Handler, new: Handler) -> bool:
    return known.target == new.target
