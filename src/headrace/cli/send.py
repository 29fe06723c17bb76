"""Sends one job for the command line, says who may run it, and waits for its result if asked to."""

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


class Making:
    """Makes jobs of a kind, a payload and options. With `is_checked` the app knows its kinds: the function's queue and
    options are the defaults, and the payload must fit its arguments."""

    def __init__(self, app: "App", options: OptionFields, *, is_checked: bool) -> None:
        self.app = app
        self.is_checked = is_checked
        self._options = options

    def function(self, kind: str) -> "JobFunction[..., Any] | None":
        """The function that does such jobs; raises `Refused` for a kind that the app does not have."""
        if not self.is_checked:
            return None
        found = self.app.registry.find(kind)
        if found is None:
            raise Refused("bad_kind", f"{self.app.handlers.describe_unknown(kind)}; --no-app sends it all the same")
        return found

    def job(self, kind: str, payload: Any, own: OptionFields | None = None) -> Job:
        """A job, ready to be sent; `own` options come before those of all jobs."""
        function = self.function(kind)
        if function is None:
            options = Options(**(own or {})).over(Options(**self._options))
            return self.app.maker.job_of(kind, self.app.maker.codec.encode(payload), options)
        sender = function.options(**self._options).options(**(own or {}))
        return _called(sender.job, function, payload)


def _called(make: Callable[..., Job], function: "JobFunction[..., Any]", payload: Any) -> Job:
    arguments = function.handler.arguments
    try:
        match arguments.style:
            case "whole":
                return make(payload)
            case "listed" if payload is None or isinstance(payload, list):
                return make(*(payload or ()))
            case "named" if payload is None or isinstance(payload, Mapping):
                return make(**(payload or {}))
    except TypeError as error:  # a name that Python itself stumbles over, such as self
        raise Refused("bad_arguments", f"{arguments} cannot be called with {bounded_repr(payload)}: {error}") from error
    wanted = "an array of arguments" if arguments.style == "listed" else "an object of arguments by name"
    raise Refused("bad_arguments", f"the payload for {arguments} must be {wanted}; found {bounded_repr(payload)}")


def option_fields(given: Mapping[str, Any]) -> OptionFields:
    """Those that were given."""
    return cast("OptionFields", {name: value for name, value in given.items() if value is not None})


class SendAnswer(Struct, omit_defaults=True):
    """What became of a job that was sent."""

    id: str
    kind: str
    tenant: str
    queue: str
    status: str
    error: str | None = None
    outcome: str | None = None
    """Of the wait for its result: done, dead, cancelled, or open when it has not ended in time."""
    result: Any = None
    paused: bool = False
    """Whether its queue is paused: the job waits until that is over."""

    @property
    def ok(self) -> bool:
        """Whether the store has the job and, if it was waited for, it is done."""
        return self.status not in REFUSALS and self.outcome in (None, "done")

    @property
    def place(self) -> str:
        """The queue, as a part of a sentence."""
        return f"queue {self.queue!r}" + ("" if self.tenant == "default" else f" of tenant {self.tenant!r}")

    @property
    def told(self) -> str:
        """What the store did, as a sentence."""
        queue = self.place
        match self.status:
            case "created":
                return f"job {self.id} was created on {queue}"
            case "updated":
                return f"job {self.id} waits already on {queue} and was updated"
            case "blocked":
                return f"job {self.id} is running; this one waits behind it on {queue}"
            case "duplicate":
                return f"job {self.id} on {queue} was sent before under this key; nothing was changed"
            case _:
                return f"{self.status}: {self.error}"


async def send(client: "Client", job: "Job", codec: "Codec") -> "tuple[SendAnswer, Handle[Any] | None]":
    """Send a job; a refusal that depends on what the store holds is an answer like others."""
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
    """Those of the queues that are paused; none where the store is away: the jobs were sent all the same."""
    try:
        return [queue for queue in queues if (await store.queues.configuration(queue)).paused]
    except (StoreUnavailable, OutcomeUnknown):
        return []


def paused_text(queue: "Queue") -> str:
    """What is said of jobs that were sent to a paused queue, with what to do."""
    words = ["headrace", "queues", "resume", queue.full_name, *_tenant_words(queue.tenant)]
    return f"queue {queue.full_name!r} is paused; nothing on it runs until: {shlex.join(words)}"


def broken_off_text(id: str, queue: str | None, tenant: str, url: str | None) -> str:
    """What is said when somebody has stopped waiting for a job; `url` where it has to be typed."""
    words = ["headrace", "jobs", "show", id, *(["--queue", queue] if queue else []), *_tenant_words(tenant)]
    command = shlex.join([*words, *(["--url", url] if url else [])])
    return f"nobody waits for job {id} any longer, but it goes on; look at it with: {command}"


def _tenant_words(tenant: str) -> list[str]:
    return [] if tenant == DEFAULT_TENANT else ["--tenant", tenant]


async def is_worked_on(client: "Client", queue: "Queue") -> bool:
    """Whether a worker has asked for jobs of the queue lately, by the store's clock; looks twice, see the limit."""
    for pause_ms in (WORKER_SECOND_LOOK_MS, 0):
        now_ms = await client.store.now_ms()
        if any(now_ms - each.seen_at_ms <= WORKER_LATELY_MS for each in await client.store.reads.workers(queue)):
            return True
        await asyncio.sleep(pause_ms / 1_000)
    return False


def worker_command(making: Making, queue: "Queue", app: str | None, url: str | None) -> str | None:
    """What to type for a worker that claims from the queue; None where no option would make one.

    `app` and `url` are what has to be typed. A worker without further options claims from the queues of its app, with
    `--tenant` from those of another tenant.
    """
    homes = making.app.handlers.queues if making.is_checked else []
    own_tenant = making.app.maker.tenant if making.is_checked else DEFAULT_TENANT
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
    """Wait for the result and write it into the answer; whatever goes wrong now, the job itself was sent."""
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
