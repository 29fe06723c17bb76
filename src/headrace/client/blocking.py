"""A client for programs without an event loop: the methods of `Client`, each of which waits for its answer."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from headrace.client.background import BACKGROUND
from headrace.client.client import Client
from headrace.client.codec import JSON, Codec
from headrace.client.handle import AnyHandle, Handle
from headrace.client.options import JobMaker, OptionFields
from headrace.model.clock import SystemClock, monotonic_ms
from headrace.model.errors import BadConfig, OutcomeUnknown, StoreUnavailable
from headrace.model.job import Job
from headrace.model.limits import BATCH_MAX, ENQUEUES_IN_FLIGHT_MAX
from headrace.model.names import DEFAULT_QUEUE, DEFAULT_TENANT, Queue, random_bytes
from headrace.model.results import Cancellation, Found, Removed
from headrace.model.times import Duration, duration_ms

R = TypeVar("R")
T = TypeVar("T")


class Closeable(ABC):
    """Closed at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Close it; closing twice is fine."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingClient(Closeable):
    """A `Client` for threads: every method waits for its answer. Any number of threads may share it.

    The first call opens the store, on a background thread shared by all blocking clients of the process. A
    client may be used after a fork and be pickled: the other process opens the store anew. Use `with`, or `close`.
    """

    def __init__(
        self,
        url: str,
        *,
        tenant: str = DEFAULT_TENANT,
        queue: str | Queue = DEFAULT_QUEUE,
        codec: Codec = JSON,
    ) -> None:
        if url.startswith("memory:"):
            raise BadConfig(
                "a store in memory lives on one event loop and a blocking client brings its own; use sqlite:///…, or"
                " Client(store) on your event loop"
            )
        self._url = url
        self.maker = JobMaker(tenant=tenant, queue=queue, codec=codec, clock=SystemClock(), entropy=random_bytes)
        self._opened: tuple[asyncio.AbstractEventLoop, Client] | None = None
        self._closed = False

    def __reduce__(self) -> tuple[Callable[..., "BlockingClient"], tuple[object, ...]]:
        maker = self.maker
        return _rebuild, (self._url, maker.tenant, maker.default_queue, maker.codec)

    def close(self) -> None:
        """Release the store; closing twice is fine, any other call afterwards raises `StoreUnavailable`."""
        if not self._closed:
            self._closed = True
            if self._opened is not None:
                BACKGROUND.run(self._close)

    def job(self, kind: str, payload: object = None, **options: Unpack[OptionFields]) -> Job:
        """Make a job for `send` and `enqueue_many`, without sending it. Raises `Refused` for invalid values."""
        return self.maker.job(kind, payload, **options)

    def enqueue(self, kind: str, payload: object = None, **options: Unpack[OptionFields]) -> "BlockingHandle[Any]":
        """Send a job to the workers that handle `kind`; see `Client.enqueue`."""
        return self.send(self.maker.job(kind, payload, **options))

    @overload
    def send(self, job: Job, *, type: type[R], codec: Codec | None = None) -> "BlockingHandle[R]": ...
    @overload
    def send(self, job: Job, *, type: Any = Any, codec: Codec | None = None) -> "BlockingHandle[Any]": ...
    def send(self, job: Job, *, type: Any = Any, codec: Codec | None = None) -> "BlockingHandle[Any]":
        """Send a job that `job` made; its result will be read as `type`."""
        return _blocking_handle(self, self._run(lambda client: client.send(job)), type, codec)

    def enqueue_many(
        self, jobs: Iterable[Job], *, progress: Callable[[int], None] | None = None
    ) -> "list[BlockingHandle[Any]]":
        """Send any number of jobs; see `Client.enqueue_many`. `jobs` and `progress` are used on the caller's thread."""
        handles: list[BlockingHandle[Any]] = []
        left = iter(jobs)
        while part := list(islice(left, BATCH_MAX * ENQUEUES_IN_FLIGHT_MAX)):
            try:
                sent = self._run(lambda client, part=part: client.enqueue_many(part))  # type: ignore[misc]
            except StoreUnavailable as error:
                if not handles:
                    raise
                raise OutcomeUnknown(
                    f"{len(handles):,} jobs were answered and {len(part):,} were not: {error}",
                    known=handles,
                    unknown=[job.id for job in part],
                ) from error
            except OutcomeUnknown as lost:
                known = [_blocking_handle(self, each) for each in lost.known if isinstance(each, Handle)]
                raise OutcomeUnknown(str(lost), known=[*handles, *known], unknown=lost.unknown) from lost
            handles += [_blocking_handle(self, each) for each in sent]
            if progress is not None:
                progress(len(handles))
        return handles

    def enqueue_on(self, connection: Any, jobs: Sequence[Job]) -> "list[BlockingHandle[Any]]":
        """Send jobs as part of your own transaction on `connection`; see `Client.enqueue_on`."""
        return [_blocking_handle(self, each) for each in self._run(lambda client: client.enqueue_on(connection, jobs))]

    def handle(
        self, queue: str | Queue, id: str, *, type: Any = Any, codec: Codec | None = None
    ) -> "BlockingHandle[Any]":
        """A handle of a job sent earlier, by this program or another; makes no call to the store."""
        return BlockingHandle(self, self.maker.queue(queue), id, type=type, codec=codec)

    def cancel(self, queue: str | Queue, *ids: str, running: bool = False) -> list[Cancellation]:
        """End waiting jobs; with `running`, also ask active ones to stop. Answers in the order of the ids."""
        return self._run(lambda client: client.cancel(queue, *ids, running=running))

    def remove(self, queue: str | Queue, *ids: str) -> list[Removed]:
        """Delete everything of these jobs: record, blocked job, finished job, dead letters. A running handler goes on
        without a lease."""
        return self._run(lambda client: client.remove(queue, *ids))

    def find(self, queue: str | Queue, *ids: str) -> list[Found | None]:
        """Everything the store knows of each job; None for an unknown id."""
        return self._run(lambda client: client.find(queue, *ids))

    def result(
        self,
        queue: str | Queue,
        id: str,
        *,
        timeout: Duration | None = None,
        type: Any = Any,
        codec: Codec | None = None,
        blocked_job: bool = False,
    ) -> Any:
        """Wait until the job has ended and return its result; see `Handle.result`."""
        until_ms = None if timeout is None else monotonic_ms() + duration_ms("timeout", timeout)

        def wait(client: Client) -> Coroutine[Any, Any, Any]:
            # Computed at each start: a fork elsewhere in the program cancels the wait and starts it again.
            left = None if until_ms is None else max(until_ms - monotonic_ms(), 0) / 1_000
            return client.result(queue, id, timeout=left, type=type, codec=codec, blocked_job=blocked_job)

        return self._run(wait, interruptible=True)

    def _run(self, function: Callable[[Client], Coroutine[Any, Any, T]], *, interruptible: bool = False) -> T:
        async def call() -> T:
            return await function(await self._client())

        if self._closed:
            raise StoreUnavailable("this client was closed; make a new one")
        return BACKGROUND.run(call, interruptible=interruptible)

    async def _client(self) -> Client:
        """The client on the background's loop; a new one after a fork."""
        loop = asyncio.get_running_loop()
        if self._opened is None or self._opened[0] is not loop:
            store = await BACKGROUND.stores.acquire(self._url)
            if self._opened is None or self._opened[0] is not loop:
                maker = self.maker
                client = Client(store, tenant=maker.tenant, queue=maker.default_queue, codec=maker.codec)
                self._opened = loop, client
            else:  # another thread's call opened it meanwhile
                await BACKGROUND.stores.release(self._url)
        return self._opened[1]

    async def _close(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None and opened[0] is asyncio.get_running_loop():
            await BACKGROUND.stores.release(self._url)


class BlockingHandle(AnyHandle[BlockingClient, R]):
    """A `Handle` for threads; can be pickled along with its client."""

    __slots__ = ()

    def result(self, timeout: Duration | None = None) -> R:
        """Wait until the job is done and return its result; see `Handle.result`."""
        found: R = self._client.result(
            self.queue,
            self.id,
            timeout=timeout,
            type=self._type,
            codec=self._codec,
            blocked_job=self.status == "blocked",
        )
        return found

    def cancel(self, *, running: bool = False) -> Cancellation:
        """End the job if it waits; with `running`, also ask an active one to stop."""
        [answer] = self._client.cancel(self.queue, self.id, running=running)
        return answer

    def remove(self) -> Removed:
        """Delete everything of the job, its finished job and dead letters included."""
        [answer] = self._client.remove(self.queue, self.id)
        return answer

    def find(self) -> Found | None:
        """Everything the store knows of the job."""
        [found] = self._client.find(self.queue, self.id)
        return found


def run_on(
    client: BlockingClient, function: Callable[[Client], Coroutine[Any, Any, T]], *, interruptible: bool = False
) -> T:
    """Run an async function of the client behind a blocking one, on its event loop; see `Background.run`."""
    return client._run(function, interruptible=interruptible)


def _blocking_handle(
    client: BlockingClient, handle: Handle[Any], type: Any = Any, codec: Codec | None = None
) -> BlockingHandle[Any]:
    return BlockingHandle(client, handle.queue, handle.id, handle.status, type, codec, handle.error)


def _rebuild(url: str, tenant: str, queue: str | Queue, codec: Codec) -> BlockingClient:
    return BlockingClient(url, tenant=tenant, queue=queue, codec=codec)
