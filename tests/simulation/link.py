"""A store as one simulated process reaches it: the one store in memory behind a way on which anything can happen."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.model.claim import ClaimRequest, Claims, Lease, Settlement
from headrace.model.errors import StoreUnavailable
from headrace.model.feed import FeedCursor, FeedName
from headrace.model.finished import FinishedJob
from headrace.model.job import Job, State
from headrace.model.names import Queue, Shard
from headrace.model.queue_config import QueueConfig
from headrace.model.results import (
    Cancellation,
    Enqueued,
    Extended,
    Found,
    Group,
    Health,
    Page,
    Removed,
    Repaired,
    Scan,
    Settled,
    Snapshot,
    Turned,
    WorkerSeen,
)
from tests.simulation.network import Way
from tests.simulation.request import Batch, Claiming, Exchange, Look, Turning


def own_time(now_ms: int | None) -> None:
    """Fail when a process tells the store what time it is: clocks of processes are wrong."""
    assert now_ms is None, f"a process told the store the time {now_ms}"


class LinkJobs:
    """The jobs protocol over the way."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._jobs = way.server.store.jobs

    async def enqueue(self, jobs: Sequence[Job], *, now_ms: int | None = None) -> list[Enqueued]:
        own_time(now_ms)
        return await Batch(self._way, "enqueue", jobs, lambda job: (job.queue, job.id), self._jobs.enqueue).run()

    async def claim(self, request: ClaimRequest, *, now_ms: int | None = None) -> Claims:
        own_time(now_ms)
        return await Claiming(self._way, "claim", request, lambda: self._jobs.claim(request)).run()

    async def extend(self, leases: Sequence[Lease], *, lease_ms: int, now_ms: int | None = None) -> list[Extended]:
        own_time(now_ms)
        return await Batch(
            self._way,
            "extend",
            leases,
            lambda lease: (lease.queue, lease.id),
            lambda part: self._jobs.extend(part, lease_ms=lease_ms),
        ).run()

    async def settle(self, settlements: Sequence[Settlement], *, now_ms: int | None = None) -> list[Settled]:
        own_time(now_ms)
        return await Batch(
            self._way, "settle", settlements, lambda each: (each.lease.queue, each.lease.id), self._jobs.settle
        ).run()

    async def turn(
        self, settlements: Sequence[Settlement], request: ClaimRequest, *, now_ms: int | None = None
    ) -> Turned:
        own_time(now_ms)
        return await Turning(self._way, (settlements, request), lambda: self._jobs.turn(settlements, request)).run()

    async def repair(self, queue: Queue, *, limit: int = 100, now_ms: int | None = None) -> Repaired:
        own_time(now_ms)
        return await Exchange(self._way, "repair", queue, lambda: self._jobs.repair(queue, limit=limit)).run()

    async def cancel(
        self, queue: Queue, ids: Sequence[str], *, running: bool = False, now_ms: int | None = None
    ) -> list[Cancellation]:
        own_time(now_ms)
        return await Batch(
            self._way,
            "cancel",
            [(queue, id) for id in ids],
            lambda item: item,
            lambda part: self._jobs.cancel(queue, [id for _, id in part], running=running),
        ).run()

    async def remove(self, queue: Queue, ids: Sequence[str], *, now_ms: int | None = None) -> list[Removed]:
        own_time(now_ms)
        return await Batch(
            self._way,
            "remove",
            [(queue, id) for id in ids],
            lambda item: item,
            lambda part: self._jobs.remove(queue, [id for _, id in part]),
        ).run()


class LinkReads:
    """The reads protocol over the way."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._reads = way.server.store.reads

    async def find(self, queue: Queue, ids: Sequence[str], *, now_ms: int | None = None) -> Sequence[Found | None]:
        own_time(now_ms)
        return await Look(self._way, "find", (queue, ids), lambda: self._reads.find(queue, ids)).run()

    async def list(
        self, queue: Queue, state: State, *, cursor: str | None = None, limit: int = 100, now_ms: int | None = None
    ) -> Page[Found]:
        own_time(now_ms)
        return await Look(
            self._way, "list", queue, lambda: self._reads.list(queue, state, cursor=cursor, limit=limit)
        ).run()

    async def finished_job(self, queue: Queue, id: str, *, now_ms: int | None = None) -> FinishedJob | None:
        own_time(now_ms)
        return await Look(self._way, "finished_job", (queue, id), lambda: self._reads.finished_job(queue, id)).run()

    async def snapshot(self, shard: Shard, *, now_ms: int | None = None) -> Snapshot:
        own_time(now_ms)
        return await Look(self._way, "snapshot", shard, lambda: self._reads.snapshot(shard)).run()

    async def scan(
        self,
        shard: Shard,
        group: Group,
        *,
        cursor: str | None = None,
        limit: int = 1_000,
        now_ms: int | None = None,
    ) -> Scan:
        own_time(now_ms)
        return await Look(
            self._way, "scan", shard, lambda: self._reads.scan(shard, group, cursor=cursor, limit=limit)
        ).run()

    async def workers(self, queue: Queue, *, now_ms: int | None = None) -> Sequence[WorkerSeen]:
        own_time(now_ms)
        return await Look(self._way, "workers", queue, lambda: self._reads.workers(queue)).run()


class LinkQueues:
    """What processes ask of queues; the rest is not simulated."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._queues = way.server.store.queues

    async def configure(self, queue: Queue, changes: Mapping[str, object]) -> QueueConfig:
        return await Exchange(self._way, "configure", queue, lambda: self._queues.configure(queue, changes)).run()

    async def configuration(self, queue: Queue) -> QueueConfig:
        return await Look(self._way, "configuration", queue, lambda: self._queues.configuration(queue)).run()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"queues.{name} is not simulated; add it here")


class LinkSignals:
    """The signals protocol over the way: hints come late, and some never."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._signals: Any = way.server.store.signals

    async def wait(self, queues: Sequence[Queue], timeout_ms: int) -> bool:
        return await self._hint("wait", queues, timeout_ms)

    async def ended(self, queue: Queue, ids: Sequence[str], timeout_ms: int) -> bool:
        return await self._hint("ended", queue, ids, timeout_ms)

    async def changed(self, feed: FeedName, after: FeedCursor | None, timeout_ms: int) -> bool:
        return await self._hint("changed", feed, after, timeout_ms)

    async def _hint(self, verb: str, *given: Any) -> bool:
        way = self._way
        server, fate = way.server, way.fate()
        await asyncio.sleep(way.latency())
        if fate in ("drop_request", "lose_request") or way.is_closed:
            way.trouble(fate)
            raise StoreUnavailable("the store cannot be listened to")
        if fate in ("lose_reply", "lose_part"):
            way.trouble("lost_hint")
            await asyncio.sleep(given[-1] / 1000)
            return False
        # The server listens on, whatever becomes of the process; a process that stops asking ends it.
        listening = server.loop.create_task(getattr(self._signals, verb)(*given), context=server.outside)
        try:
            found: bool = await asyncio.shield(listening)
        finally:
            if not way.process.is_crashed:
                listening.cancel()
        await asyncio.sleep(way.latency())
        return found


class Link:
    """A store for one process."""

    is_remote = True

    def __init__(self, way: Way) -> None:
        self.way = way
        self.jobs = LinkJobs(way)
        self.reads = LinkReads(way)
        self.signals = LinkSignals(way)
        self.queues: Any = LinkQueues(way)

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
        return await Look(self.way, "now_ms", None, self.way.server.store.now_ms).run()

    async def health(self) -> Health:
        return await Look(self.way, "health", None, self.way.server.store.health).run()

    async def close(self) -> None:
        self.way.is_closed = True
