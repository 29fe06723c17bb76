"""Sends one job for the command line, checks for its workers, and waits for its result."""

import asyncio
import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from headrace.client.handle import REFUSALS
from headrace.client.options import OptionFields, Options
from headrace.model.errors import (
    HeadraceError,
    JobCancelled,
    JobFailed,
    OutcomeUnknown,
    Refused,
    StoreUnavailable,
)
from headrace.model.job import Job
from headrace.model.limits import WORKER_LATELY_MS, WORKER_SECOND_LOOK_MS
from headrace.model.names import DEFAULT_TENANT
from headrace.model.validate import bounded_repr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.app.app import App
    from headrace.app.job_function import JobFunction
    from headrace.client.client import Client
    from headrace.client.codec import Codec
    from headrace.client.handle import Handle
    from headrace.model.job import Job
    from headrace.model.names import Queue
    from headrace.model.times import Duration
    from headrace.stores.contract.store import Store


OPTIONS = tuple(OptionFields.__annotations__)


class JobFactory:
    """Builds jobs from a kind, a payload and options. With `is_checked` the kind must be one of the app: its function
    gives the default queue and options, and its arguments check the payload."""

    def __init__(self, app: "App", options: OptionFields, *, is_checked: bool) -> None:
        self.app = app
        self.is_checked = is_checked
        self._options = options

    def function(self, kind: str) -> "JobFunction[..., Any] | None":
        """The function of a kind; raises `Refused` for a kind that the app does not have."""
        if not self.is_checked:
            return None
        function = self.app.registry.find(kind)
        if function is None:
            raise Refused("bad_kind", f"{self.app.handlers.describe_unknown(kind)}; --no-app sends it without a check")
        return function

    def job(self, kind: str, payload: Any, own: OptionFields | None = None) -> Job:
        """A job to send; its `own` options override those of all jobs."""
        function = self.function(kind)
        if function is None:
            options = Options(**(own or {})).over(Options(**self._options))
            return self.app.maker.job_of(kind, self.app.maker.codec.encode(payload), options)
        sender = function.options(**self._options).options(**(own or {}))
        return _call(sender.job, function, payload)


def _call(make: Callable[..., Job], function: "JobFunction[..., Any]", payload: Any) -> Job:
    arguments = function.handler.arguments
    try:
        match arguments.style:
            case "whole":
                return make(payload)
            case "listed" if payload is None or isinstance(payload, list):
                return make(*(payload or ()))
            case "named" if payload is None or isinstance(payload, Mapping):
                return make(**(payload or {}))
    except TypeError as error:  # a name that Python cannot pass on, such as self
        raise Refused("bad_arguments", f"wrong arguments for {arguments}: {bounded_repr(payload)} ({error})") from error
    wanted = "an array of arguments" if arguments.style == "listed" else "an object of arguments by name"
    raise Refused("bad_arguments", f"the payload for {arguments} must be {wanted}; found {bounded_repr(payload)}")


def option_fields(options: Mapping[str, Any]) -> OptionFields:
    """The options that are set."""
    return cast("OptionFields", {name: value for name, value in options.items() if value is not None})


class SendAnswer(Struct, omit_defaults=True):
    """The outcome of sending a job."""

    id: str
    kind: str
    tenant: str
    queue: str
    status: str
    error: str | None = None
    outcome: str | None = None
    """The outcome of the wait: done, dead, cancelled, or open after a timeout."""
    result: Any = None
    paused: bool = False
    """Whether the queue is paused, so that the job waits until it is resumed."""

    @property
    def ok(self) -> bool:
        """Whether the store accepted the job and, after a wait, the job is done."""
        return self.status not in REFUSALS and self.outcome in (None, "done")

    @property
    def place(self) -> str:
        """The queue, as a part of a sentence."""
        return f"queue {self.queue!r}" + ("" if self.tenant == "default" else f" of tenant {self.tenant!r}")

    @property
    def text(self) -> str:
        """The store's answer as a sentence."""
        queue = self.place
        match self.status:
            case "created":
                return f"job {self.id} was created on {queue}"
            case "updated":
                return f"job {self.id} was already waiting on {queue} and was updated"
            case "blocked":
                return f"job {self.id} is running on {queue}; the new one is blocked until it ends"
            case "duplicate":
                return f"job {self.id} on {queue} was created earlier with this key; nothing was changed"
            case _:
                return f"{self.status}: {self.error}"


async def send(client: "Client", job: "Job", codec: "Codec") -> "tuple[SendAnswer, Handle[Any] | None]":
    """Send a job; returns a refusal that depends on the contents of the store, and raises any other."""
    answer = SendAnswer(job.id, job.kind, job.queue.tenant, job.queue.full_name, "")
    try:
        handle = await client.send(job, codec=codec)
    except Refused as refused:
        if refused.reason not in REFUSALS:
            raise
        answer.status, answer.error = refused.reason, str(refused)
        return answer, None
    answer.id, answer.status = handle.id, handle.status
    return answer, handle


async def paused_among(store: "Store", queues: "Iterable[Queue]") -> "list[Queue]":
    """The paused ones of these queues; none if the store is unavailable, since the jobs are sent."""
    try:
        return [queue for queue in queues if (await store.queues.configuration(queue)).paused]
    except (StoreUnavailable, OutcomeUnknown):
        return []


def paused_text(queue: "Queue") -> str:
    """A hint for jobs that were sent to a paused queue."""
    words = ["headrace", "queues", "resume", queue.full_name, *_tenant_words(queue.tenant)]
    return f"queue {queue.full_name!r} is paused; nothing on it runs until: {shlex.join(words)}"


def interrupted_text(id: str, queue: str | None, tenant: str, url: str | None) -> str:
    """A hint after Ctrl-C in a wait, with `url` if it must be typed."""
    words = ["headrace", "jobs", "show", id, *(["--queue", queue] if queue else []), *_tenant_words(tenant)]
    command = shlex.join([*words, *(["--url", url] if url else [])])
    return f"stopped waiting for job {id}, which continues; see it with: {command}"


def _tenant_words(tenant: str) -> list[str]:
    return [] if tenant == DEFAULT_TENANT else ["--tenant", tenant]


async def is_worked_on(client: "Client", queue: "Queue") -> bool:
    """Whether a worker has lately polled the queue, by the store's clock; checks twice, see the limit."""
    for pause_ms in (WORKER_SECOND_LOOK_MS, 0):
        now_ms = await client.store.now_ms()
        if any(now_ms - each.seen_at_ms <= WORKER_LATELY_MS for each in await client.store.reads.workers(queue)):
            return True
        await asyncio.sleep(pause_ms / 1_000)
    return False


def worker_command(factory: JobFactory, queue: "Queue", app: str | None, url: str | None) -> str | None:
    """The command of a worker for the queue, with `app` and `url` if they must be typed; None if no options fit.

    Without further options a worker claims from the queues of its app, with `--tenant` from those of another tenant.
    """
    homes = factory.app.handlers.queues if factory.is_checked else []
    own_tenant = factory.app.maker.tenant if factory.is_checked else DEFAULT_TENANT
    shards = {home.name: home.shards for home in homes}
    words = ["headrace", "worker", *([app] if app else []), *(["--url", url] if url else [])]
    if queue in homes:
        return shlex.join(words)
    if queue.shards != shards.get(queue.name, 1):
        return None
    if queue.name not in shards:
        words += ["--queue", queue.name]
    if queue.name in shards or queue.tenant != own_tenant:
        words += ["--tenant", queue.tenant]
    return shlex.join(words)


async def await_result(answer: SendAnswer, handle: "Handle[Any]", wait: "Duration") -> None:
    """Wait for the result and write it into the answer; an error of the wait leaves the job alone."""
    try:
        result = await handle.result(timeout=wait)
        answer.result = result.decode("utf-8", "replace") if isinstance(result, bytes) else result
        answer.outcome = "done"
    except JobFailed as failed:
        answer.outcome, answer.error = "dead", str(failed)
    except JobCancelled as cancelled:
        answer.outcome, answer.error = "cancelled", str(cancelled)
    except (TimeoutError, HeadraceError) as error:
        answer.outcome, answer.error = "open", str(error)
