"""The store of one simulated process: the shared store in memory behind a faulty network."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.model.claim import ClaimRequest, Claims, Lease, Settlement
from headrace.model.errors import StoreUnavailable
from headrace.model.feed import FeedCursor, FeedName
from headrace.model.finished import FinishedJob
from headrace.model.job import Job, State
from headrace.model.names import Queue, Shard
from headrace.model.policy import QueueConfig
from headrace.model.results import (
    ALL_IDS,
    Cancellation,
    Enqueued,
    Extended,
    Found,
    Group,
    Health,
    IdRange,
    Page,
    Removed,
    Repaired,
    Scan,
    Settled,
    Snapshot,
    Turned,
    View,
    WorkerSeen,
)
from tests.simulation.call import BatchCall, Call, ClaimCall, ReadCall, TurnCall
from tests.simulation.network import Route


def check_no_time(now_ms: int | None) -> None:
    """Fail when a process passes its own time to the store: clocks of processes are wrong."""
    assert now_ms is None, f"a process told the store the time {now_ms}"


class LinkJobs:
    """The jobs protocol over the network."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._jobs = route.server.store.jobs

    async def enqueue(self, jobs: Sequence[Job], *, now_ms: int | None = None) -> list[Enqueued]:
        check_no_time(now_ms)
        return await BatchCall(self._route, "enqueue", jobs, lambda job: (job.queue, job.id), self._jobs.enqueue).run()

    async def claim(self, request: ClaimRequest, *, now_ms: int | None = None) -> Claims:
        check_no_time(now_ms)
        return await ClaimCall(self._route, "claim", request, lambda: self._jobs.claim(request)).run()

    async def extend(self, leases: Sequence[Lease], *, lease_ms: int, now_ms: int | None = None) -> list[Extended]:
        check_no_time(now_ms)
        return await BatchCall(
            self._route,
            "extend",
            leases,
            lambda lease: (lease.queue, lease.id),
            lambda part: self._jobs.extend(part, lease_ms=lease_ms),
        ).run()

    async def settle(self, settlements: Sequence[Settlement], *, now_ms: int | None = None) -> list[Settled]:
        check_no_time(now_ms)
        return await BatchCall(
            self._route, "settle", settlements, lambda each: (each.lease.queue, each.lease.id), self._jobs.settle
        ).run()

    async def turn(
        self, settlements: Sequence[Settlement], request: ClaimRequest, *, now_ms: int | None = None
    ) -> Turned:
        check_no_time(now_ms)
        return await TurnCall(self._route, (settlements, request), lambda: self._jobs.turn(settlements, request)).run()

    async def repair(self, queue: Queue, *, limit: int = 100, now_ms: int | None = None) -> Repaired:
        check_no_time(now_ms)
        return await Call(self._route, "repair", queue, lambda: self._jobs.repair(queue, limit=limit)).run()

    async def cancel(
        self, queue: Queue, ids: Sequence[str], *, running: bool = False, now_ms: int | None = None
    ) -> list[Cancellation]:
        check_no_time(now_ms)
        return await BatchCall(
            self._route,
            "cancel",
            [(queue, id) for id in ids],
            lambda item: item,
            lambda part: self._jobs.cancel(queue, [id for _, id in part], running=running),
        ).run()

    async def remove(self, queue: Queue, ids: Sequence[str], *, now_ms: int | None = None) -> list[Removed]:
        check_no_time(now_ms)
        return await BatchCall(
            self._route,
            "remove",
            [(queue, id) for id in ids],
            lambda item: item,
            lambda part: self._jobs.remove(queue, [id for _, id in part]),
        ).run()


class LinkReads:
    """The reads protocol over the network."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._reads = route.server.store.reads

    async def find(
        self, queue: Queue, ids: Sequence[str], *, ahead: bool = False, now_ms: int | None = None
    ) -> Sequence[Found | None]:
        check_no_time(now_ms)
        return await ReadCall(
            self._route, "find", (queue, ids), lambda: self._reads.find(queue, ids, ahead=ahead)
        ).run()

    async def browse(
        self, queue: Queue, view: View, *, cursor: str | None = None, limit: int = 50, now_ms: int | None = None
    ) -> Page[Found]:
        check_no_time(now_ms)
        return await ReadCall(
            self._route, "browse", queue, lambda: self._reads.browse(queue, view, cursor=cursor, limit=limit)
        ).run()

    async def list(
        self, queue: Queue, state: State, *, cursor: str | None = None, limit: int = 100, now_ms: int | None = None
    ) -> Page[Found]:
        check_no_time(now_ms)
        return await ReadCall(
            self._route, "list", queue, lambda: self._reads.list(queue, state, cursor=cursor, limit=limit)
        ).run()

    async def finished_job(self, queue: Queue, id: str, *, now_ms: int | None = None) -> FinishedJob | None:
        check_no_time(now_ms)
        return await ReadCall(
            self._route, "finished_job", (queue, id), lambda: self._reads.finished_job(queue, id)
        ).run()

    async def snapshot(self, shard: Shard, *, now_ms: int | None = None) -> Snapshot:
        check_no_time(now_ms)
        return await ReadCall(self._route, "snapshot", shard, lambda: self._reads.snapshot(shard)).run()

    async def scan(
        self,
        shard: Shard,
        group: Group,
        *,
        ids: IdRange = ALL_IDS,
        payloads: bool = True,
        cursor: str | None = None,
        limit: int = 1_000,
        now_ms: int | None = None,
    ) -> Scan:
        check_no_time(now_ms)
        return await ReadCall(
            self._route,
            "scan",
            shard,
            lambda: self._reads.scan(shard, group, ids=ids, payloads=payloads, cursor=cursor, limit=limit),
        ).run()

    async def split_ids(self, shard: Shard, parts: int, *, now_ms: int | None = None) -> Sequence[str]:
        check_no_time(now_ms)
        return await ReadCall(self._route, "split_ids", shard, lambda: self._reads.split_ids(shard, parts)).run()

    async def workers(self, queue: Queue, *, now_ms: int | None = None) -> Sequence[WorkerSeen]:
        check_no_time(now_ms)
        return await ReadCall(self._route, "workers", queue, lambda: self._reads.workers(queue)).run()


class LinkQueues:
    """The calls on queues that processes need; the others are not simulated."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._queues = route.server.store.queues

    async def configure(self, queue: Queue, changes: Mapping[str, object]) -> QueueConfig:
        return await Call(self._route, "configure", queue, lambda: self._queues.configure(queue, changes)).run()

    async def configuration(self, queue: Queue) -> QueueConfig:
        return await ReadCall(self._route, "configuration", queue, lambda: self._queues.configuration(queue)).run()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"queues.{name} is not simulated; add it here")


class LinkSignals:
    """The signals protocol over the network: hints come late, and some never."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._signals: Any = route.server.store.signals

    async def wait(self, queues: Sequence[Queue], timeout_ms: int) -> bool:
        return await self._hint("wait", queues, timeout_ms)

    async def ended(self, queue: Queue, ids: Sequence[str], timeout_ms: int) -> bool:
        return await self._hint("ended", queue, ids, timeout_ms)

    async def changed(self, feed: FeedName, after: FeedCursor | None, timeout_ms: int) -> bool:
        return await self._hint("changed", feed, after, timeout_ms)

    async def _hint(self, verb: str, *arguments: Any) -> bool:
        route = self._route
        server, fate = route.server, route.fate()
        await asyncio.sleep(route.latency())
        if fate in ("drop_request", "lose_request") or route.is_closed:
            route.record_fault(fate)
            raise StoreUnavailable("the store cannot be listened to")
        if fate in ("lose_reply", "lose_part"):
            route.record_fault("lost_hint")
            await asyncio.sleep(arguments[-1] / 1000)
            return False
        # The wait goes on in the server when the process crashes; a process that is cancelled ends it.
        listening = server.loop.create_task(getattr(self._signals, verb)(*arguments), context=server.outside)
        try:
            found: bool = await asyncio.shield(listening)
        finally:
            if not route.process.is_crashed:
                listening.cancel()
        await asyncio.sleep(route.latency())
        return found


class Link:
    """A store for one process."""

    is_remote = True

    def __init__(self, route: Route) -> None:
        self.route = route
        self.jobs = LinkJobs(route)
        self.reads = LinkReads(route)
        self.signals = LinkSignals(route)
        self.queues: Any = LinkQueues(route)

    @property
    def dead(self) -> Any:
        raise AssertionError("dead letters are not simulated; add them here")

    @property
    def journal(self) -> Any:
        raise AssertionError("reading the journal is not simulated; add it here")

    @property
    def feeds(self) -> Any:
        raise AssertionError("feeds are not simulated; add them here")

    @property
    def items(self) -> Any:
        raise AssertionError("items of feeds are not simulated; add them here")

    @property
    def integrity(self) -> Any:
        raise AssertionError("integrity is not simulated; add it here")

    async def now_ms(self) -> int:
        return await ReadCall(self.route, "now_ms", None, self.route.server.store.now_ms).run()

    async def health(self) -> Health:
        return await ReadCall(self.route, "health", None, self.route.server.store.health).run()

    async def close(self) -> None:
        self.route.is_closed = True
