"""Queues, dead letters and reads over HTTP."""

from collections.abc import Mapping, Sequence

from headrace.model.finished import DeadLetter, DeadLetterKey, FinishedJob
from headrace.model.job import State
from headrace.model.names import Queue, Shard
from headrace.model.policy import QueueConfig
from headrace.model.results import (
    ALL_IDS,
    Counts,
    Found,
    Group,
    IdRange,
    Page,
    QueueOverview,
    Replayed,
    Scan,
    Snapshot,
    View,
    WorkerSeen,
)
from headrace.stores.contract.dead_letters import ALL_DEAD_LETTERS, DeadLetterFilter
from headrace.stores.http.connection import Request, ServiceConnections
from headrace.wire.caller import TenantRows
from headrace.wire.jobs import FindBody
from headrace.wire.journal import SplitAnswer, WorkersAnswer
from headrace.wire.queues import PurgeAnswer, PurgeBody, QueueAnswer, QueueRows, ShardsAnswer
from headrace.wire.records import DeadLetterRows, FoundJobs, JobRows, ScanAnswer
from headrace.wire.replay import PurgedAnswer, PurgeDeadBody, ReplayAnswer, ReplayBody


class HttpQueues:
    """Configuration, counts and names."""

    def __init__(self, connections: ServiceConnections) -> None:
        self._connections = connections

    async def configure(
        self,
        queue: Queue,
        changes: Mapping[str, object],
        *,
        version: int | None = None,
        now_ms: int | None = None,
    ) -> QueueConfig:
        request = Request(
            method="PATCH",
            path=self._connections.queue_path(queue),
            query={"shards": queue.shards},
            body=dict(changes),
            headers={} if version is None else {"if-match": f'"v{version}"'},
            ids=[],
            now_ms=now_ms,
        )
        return await self._connections.call(request, QueueConfig)

    async def _show(self, queue: Queue, now_ms: int | None = None) -> QueueAnswer:
        path = self._connections.queue_path(queue)
        request = Request(method="GET", path=path, query={"shards": queue.shards}, now_ms=now_ms)
        return await self._connections.call(request, QueueAnswer)

    async def configuration(self, queue: Queue) -> QueueConfig:
        config = (await self._show(queue)).config
        assert config is not None  # one queue is answered with its configuration
        return config

    async def counts(self, queue: Queue, *, now_ms: int | None = None) -> Counts:
        return (await self._show(queue, now_ms)).counts

    async def overview(
        self,
        tenant: str,
        *,
        names: Sequence[str] | None = None,
        prefix: str = "",
        cursor: str | None = None,
        limit: int = 100,
        now_ms: int | None = None,
    ) -> Page[QueueOverview]:
        self._connections.check_tenant(tenant)
        if names is not None and not names:
            return Page([], None)
        listed = None if names is None else ",".join(names)
        query = {"names": listed, "prefix": prefix, "cursor": cursor, "limit": limit}
        request = Request(method="GET", path="/queues", query=query, now_ms=now_ms)
        answer = await self._connections.call(request, QueueRows)
        return Page([row.overview(tenant) for row in answer.rows], answer.cursor)

    async def names(self, tenant: str, *, cursor: str | None = None, limit: int = 100) -> Page[Queue]:
        self._connections.check_tenant(tenant)
        request = Request(method="GET", path="/queue_names", query={"cursor": cursor, "limit": limit})
        answer = await self._connections.call(request, ShardsAnswer)
        rows = [Queue(each.name, tenant, each.shards or 1, each.fail_queue) for each in answer.rows]
        return Page(rows, answer.cursor)

    async def tenants(self, *, cursor: str | None = None, limit: int = 100) -> Page[str]:
        request = Request(method="GET", path="/tenants", query={"cursor": cursor, "limit": limit})
        answer = await self._connections.call(request, TenantRows)
        return Page(answer.rows, answer.cursor)

    async def purge(self, queue: Queue, *, limit: int = 1_000, now_ms: int | None = None) -> int:
        path = f"{self._connections.queue_path(queue)}/purge"
        request = Request(path=path, body=PurgeBody(limit, queue.shards), ids=[], now_ms=now_ms)
        return (await self._connections.call(request, PurgeAnswer)).purged

    async def delete(self, queue: Queue, *, limit: int = 1_000) -> bool:
        query = {"confirm": queue.full_name, "limit": limit, "shards": queue.shards}
        request = Request(method="DELETE", path=self._connections.queue_path(queue), query=query, ids=[])
        return await self._connections.call(request, object) is None


class HttpDeadLetters:
    """Dead letters."""

    def __init__(self, connections: ServiceConnections) -> None:
        self._connections = connections

    async def list(
        self,
        queue: Queue,
        *,
        where: DeadLetterFilter = ALL_DEAD_LETTERS,
        cursor: str | None = None,
        limit: int = 100,
        now_ms: int | None = None,
    ) -> Page[DeadLetter]:
        filters = {name: getattr(where, name) for name in DeadLetterFilter.__struct_fields__}
        query = {**filters, "cursor": cursor, "limit": limit, "content": True, "shards": queue.shards}
        path = f"{self._connections.queue_path(queue)}/dead"
        request = Request(method="GET", path=path, query=query, now_ms=now_ms)
        return (await self._connections.call(request, DeadLetterRows)).page()

    async def replay(
        self,
        queue: Queue,
        picks: Sequence[DeadLetterKey | str],
        *,
        keep_counts: bool = False,
        delay_ms: int = 0,
        spread_ms: int = 0,
        now_ms: int | None = None,
    ) -> Sequence[Replayed]:
        body = ReplayBody(
            picks=[each if isinstance(each, str) else [each.shard, each.number] for each in picks],
            keep_counts=keep_counts,
            delay_ms=delay_ms,
            spread_ms=spread_ms,
            shards=queue.shards,
        )
        path = f"{self._connections.queue_path(queue)}/dead/replay"
        request = Request(path=path, body=body, ids=[str(each) for each in picks], now_ms=now_ms)
        return [each.model() for each in (await self._connections.call(request, ReplayAnswer)).results]

    async def purge(self, queue: Queue, picks: Sequence[DeadLetterKey], *, now_ms: int | None = None) -> int:
        body = PurgeDeadBody([str(each) for each in picks], queue.shards)
        path = f"{self._connections.queue_path(queue)}/dead/purge"
        request = Request(path=path, body=body, ids=body.dead_letters, now_ms=now_ms)
        return (await self._connections.call(request, PurgedAnswer)).purged


class HttpReads:
    """Reads."""

    def __init__(self, connections: ServiceConnections) -> None:
        self._connections = connections

    async def find(
        self, queue: Queue, ids: Sequence[str], *, ahead: bool = False, now_ms: int | None = None
    ) -> Sequence[Found | None]:
        path = f"{self._connections.queue_path(queue)}/jobs/find"
        request = Request(path=path, body=FindBody(list(ids), True, queue.shards, ahead), now_ms=now_ms)
        rows = (await self._connections.call(request, FoundJobs)).rows
        return [None if row is None else row.found() for row in rows]

    async def list(
        self, queue: Queue, state: State, *, cursor: str | None = None, limit: int = 100, now_ms: int | None = None
    ) -> Page[Found]:
        query = {"state": state, "cursor": cursor, "limit": limit, "content": True, "shards": queue.shards}
        path = f"{self._connections.queue_path(queue)}/jobs"
        request = Request(method="GET", path=path, query=query, now_ms=now_ms)
        return (await self._connections.call(request, JobRows)).page()

    async def browse(
        self, queue: Queue, view: View, *, cursor: str | None = None, limit: int = 50, now_ms: int | None = None
    ) -> Page[Found]:
        query = {"view": view, "cursor": cursor, "limit": limit, "shards": queue.shards}
        path = f"{self._connections.queue_path(queue)}/browse"
        request = Request(method="GET", path=path, query=query, now_ms=now_ms)
        return (await self._connections.call(request, JobRows)).page()

    async def finished_job(self, queue: Queue, id: str, *, now_ms: int | None = None) -> FinishedJob | None:
        [found] = await self.find(queue, [id], now_ms=now_ms)
        return None if found is None else found.finished_job

    async def snapshot(self, shard: Shard, *, now_ms: int | None = None) -> Snapshot:
        path = f"{self._connections.shard_path(shard)}/snapshot"
        request = Request(method="GET", path=path, query={"shards": shard.queue.shards}, now_ms=now_ms)
        return await self._connections.call(request, Snapshot)

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
        query = {
            "group": group,
            "after": ids.after,
            "upto": ids.upto,
            "content": payloads,
            "cursor": cursor,
            "limit": limit,
            "shards": shard.queue.shards,
        }
        request = Request(method="GET", path=f"{self._connections.shard_path(shard)}/scan", query=query, now_ms=now_ms)
        answer = await self._connections.call(request, ScanAnswer)
        return Scan(answer.epoch, answer.as_of_seq, [row.found() for row in answer.rows], answer.cursor)

    async def split_ids(self, shard: Shard, parts: int, *, now_ms: int | None = None) -> Sequence[str]:
        query = {"parts": parts, "shards": shard.queue.shards}
        path = f"{self._connections.shard_path(shard)}/split"
        request = Request(method="GET", path=path, query=query, now_ms=now_ms)
        return (await self._connections.call(request, SplitAnswer)).ids

    async def workers(self, queue: Queue, *, now_ms: int | None = None) -> Sequence[WorkerSeen]:
        path = f"{self._connections.queue_path(queue)}/workers"
        request = Request(method="GET", path=path, query={"shards": queue.shards}, now_ms=now_ms)
        return (await self._connections.call(request, WorkersAnswer)).rows
