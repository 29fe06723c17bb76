"""The service as a store: every protocol of the contract over HTTP, and the waits that signals are."""

import asyncio
from collections.abc import Sequence

from headrace.model.feed import FeedCursor, FeedName
from headrace.model.limits import POLL_MS_MAX
from headrace.model.names import Queue
from headrace.model.results import Health
from headrace.stores.http.connection import Request, ServiceConnections
from headrace.stores.http.feeds import HttpFeeds, HttpItems
from headrace.stores.http.jobs import HttpJobs
from headrace.stores.http.journal import HttpIntegrity, HttpJournal
from headrace.stores.http.queues import HttpDeadLetters, HttpQueues, HttpReads
from headrace.stores.http.url import HttpOptions
from headrace.wire.caller import MeAnswer, NowAnswer
from headrace.wire.feeds import ChangedAnswer, ChangedBody
from headrace.wire.jobs import EndedAnswer, EndedBody
from headrace.wire.queues import ReadyAnswer, WaitBody, queue_body


class HttpSignals:
    """Hints, each a request that waits at the service, for half a minute at most and then again."""

    def __init__(self, connections: ServiceConnections) -> None:
        self._connections = connections

    async def wait(self, queues: Sequence[Queue], timeout_ms: int) -> bool:
        for queue in queues:
            self._connections.check_tenant(queue.tenant)
        names = [queue_body(queue) for queue in queues]
        for wait_ms in _waits(timeout_ms):
            request = Request(
                path="/queues/wait", body=WaitBody(queues=[*names], timeout_ms=wait_ms), timeout_ms=wait_ms
            )
            if (await self._connections.call(request, ReadyAnswer)).ready:
                return True
        return False

    async def ended(self, queue: Queue, ids: Sequence[str], timeout_ms: int) -> bool:
        path = f"{self._connections.queue_path(queue)}/jobs/ended"
        for wait_ms in _waits(timeout_ms):
            body = EndedBody(ids=list(ids), timeout_ms=wait_ms, shards=queue.shards)
            request = Request(path=path, body=body, timeout_ms=wait_ms)
            if (await self._connections.call(request, EndedAnswer)).ended:
                return True
        return False

    async def changed(self, feed: FeedName, after: FeedCursor | None, timeout_ms: int) -> bool:
        path = f"{self._connections.feed_path(feed)}/changed"
        for wait_ms in _waits(timeout_ms):
            body = ChangedBody(after=None if after is None else str(after), timeout_ms=wait_ms)
            request = Request(path=path, body=body, timeout_ms=wait_ms)
            if (await self._connections.call(request, ChangedAnswer)).changed:
                return True
        return False


def _waits(timeout_ms: int) -> list[int]:
    """A wait in parts that the service takes; one of nothing still looks."""
    whole, rest = divmod(max(timeout_ms, 0), POLL_MS_MAX)
    return [POLL_MS_MAX] * whole + ([rest] if rest or not whole else [])


class HttpStore:
    """A service behind a URL. Its tenant is that of the token; it cannot choose the time, migrate, or enqueue in a
    transaction of yours."""

    is_remote = True

    def __init__(self, connections: ServiceConnections) -> None:
        self._connections = connections
        self.jobs = HttpJobs(connections)
        self.dead = HttpDeadLetters(connections)
        self.queues = HttpQueues(connections)
        self.reads = HttpReads(connections)
        self.journal = HttpJournal(connections)
        self.feeds = HttpFeeds(connections)
        self.items = HttpItems(connections)
        self.signals = HttpSignals(connections)
        self.integrity = HttpIntegrity(connections)

    @staticmethod
    async def open(options: HttpOptions) -> "HttpStore":
        """Reach the service, and learn the tenant of the token."""
        connections = ServiceConnections(options)
        try:
            me = await connections.call(Request(method="GET", path="/me"), MeAnswer)
        except BaseException:
            await connections.close()
            raise
        connections.tenant, connections.subject = me.tenant, me.subject
        return HttpStore(connections)

    async def now_ms(self) -> int:
        """The clock of the store behind the service."""
        return (await self._connections.call(Request(method="GET", path="/now"), NowAnswer)).now_ms

    async def health(self) -> Health:
        """The state of the store behind the service."""
        return await self._connections.call(Request(method="GET", path="/store"), Health)

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()
        await asyncio.sleep(0)  # aiohttp closes its transports in the next turn
