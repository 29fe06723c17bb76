"""The registry: which functions an app has, by the kind of their jobs, and by the queue whose deaths they hear of."""

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
    """A function that is told of the deaths on a queue."""

    queue: Queue
    is_cut: bool
    """Whether the number of shards was said; else it is that of the jobs on the queue."""
    handler: Handler


class Registry:
    """The functions of an app; the same function again, as when a cell of a notebook runs twice, takes its place."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobFunction[..., Any]] = {}
        self._fails: dict[tuple[str, str], FailHandler] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def kinds(self) -> list[str]:
        """What the jobs of its functions are called, in order of definition."""
        return list(self._jobs)

    @property
    def fails(self) -> list[FailHandler]:
        """The functions that are told of deaths."""
        return list(self._fails.values())

    def find(self, kind: str) -> JobFunction[..., Any] | None:
        """The function whose jobs are of that kind."""
        return self._jobs.get(kind)

    def add(self, job: JobFunction[..., Any]) -> None:
        """Take in a job; raises `BadConfig` when another function has its kind."""
        known = self._jobs.get(job.kind)
        if known is not None and not _is_same(known.handler, job.handler):
            raise BadConfig(
                f"two functions want the jobs of kind {job.kind!r}: {place(known.__wrapped__)} and"
                f" {place(job.__wrapped__)}; give one of them another kind"
            )
        self._jobs[job.kind] = job

    def add_fail(self, fail: FailHandler) -> None:
        """Take in a fail handler; raises `BadConfig` when its queue has another."""
        name = fail.queue.tenant, fail.queue.name
        known = self._fails.get(name)
        if known is not None and not _is_same(known.handler, fail.handler):
            raise BadConfig(
                f"two functions want to be told of the deaths on queue {fail.queue.name!r}:"
                f" {place(known.handler.function)} and {place(fail.handler.function)}; a queue has one fail handler"
            )
        self._fails[name] = fail

    def handlers(self, changed: Callable[[Handler], Handler] = lambda handler: handler) -> Handlers:
        """The handlers for a worker, each as it is, or `changed`."""
        handlers = Handlers()
        for job in self._jobs.values():
            handlers.register(changed(job.handler), job.queue)
        homes = {(queue.tenant, queue.name): queue for queue in handlers.queues}
        for name, fail in self._fails.items():
            handlers.register_fail(changed(fail.handler), fail.queue if fail.is_cut else homes.get(name, fail.queue))
        return handlers


def place(function: Callable[..., Any]) -> str:
    """A function by its name, and where it is written."""
    name = f"{function.__module__}.{function.__qualname__}"
    code = getattr(inspect.unwrap(function), "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def in_place(handler: Handler) -> Handler:
    """The handler without a process of its own."""
    if handler.mode != "process":
        return handler
    return replace(handler, mode="async" if inspect.iscoroutinefunction(handler.function) else "thread")


def _is_same(known: Handler, new: Handler) -> bool:
    return known.target == new.target
