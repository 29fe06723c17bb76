"""Journals and the integrity of shards over HTTP."""

from collections.abc import Sequence
from urllib.parse import quote

from headrace.model.event import Bounds, Consumer, Entry, Span
from headrace.model.integrity import Findings, RepairResult
from headrace.model.names import Shard
from headrace.stores.http.connection import Request, ServiceConnections
from headrace.wire.journal import (
    BoundsAnswer,
    BoundsBody,
    ConsumerBody,
    ConsumersAnswer,
    EntriesAnswer,
    ForgetAnswer,
    IntegrityBody,
    ReachedAnswer,
    ReachedBody,
    ShardBody,
    SpanBody,
    TrimAnswer,
    TrimBody,
)


class HttpJournal:
    """Events, and their readers."""

    def __init__(self, connections: ServiceConnections) -> None:
        self._connections = connections

    async def read(self, shard: Shard, after: int, upto: int, *, limit: int = 10_000) -> Sequence[Entry]:
        query = {"after": after, "upto": upto, "limit": limit, "shards": shard.queue.shards}
        path = f"{self._connections.shard_path(shard)}/journal"
        answer = await self._connections.call(Request(method="GET", path=path, query=query), EntriesAnswer)
        return [each.entry() for each in answer.entries]

    async def bounds(self, shard: Shard) -> Bounds:
        path, query = f"{self._connections.shard_path(shard)}/bounds", {"shards": shard.queue.shards}
        return await self._connections.call(Request(method="GET", path=path, query=query), Bounds)

    async def all_bounds(self, shards: Sequence[Shard]) -> Sequence[Bounds]:
        for each in shards:
            self._connections.check_tenant(each.queue.tenant)
        bodies = [ShardBody(queue=each.queue.full_name, shard=each.index, shards=each.queue.shards) for each in shards]
        request = Request(path="/journal/bounds", body=BoundsBody(bodies))
        return (await self._connections.call(request, BoundsAnswer)).bounds

    async def reached(self, spans: Sequence[Span], at_ms: int) -> Sequence[int]:
        for each in spans:
            self._connections.check_tenant(each.shard.queue.tenant)
        bodies = [
            SpanBody(
                queue=each.shard.queue.full_name,
                shard=each.shard.index,
                shards=each.shard.queue.shards,
                after=each.after,
                upto=each.upto,
            )
            for each in spans
        ]
        request = Request(path="/journal/reached", body=ReachedBody(bodies, at_ms))
        return (await self._connections.call(request, ReachedAnswer)).seqs

    def _consumer(self, shard: Shard, consumer: str) -> str:
        return f"{self._connections.shard_path(shard)}/consumers/{quote(consumer, safe='')}"

    async def register(
        self, shard: Shard, consumer: str, *, seq: int = 0, hold: bool = False, now_ms: int | None = None
    ) -> Consumer:
        request = Request(
            method="PUT",
            path=self._consumer(shard, consumer),
            query={"shards": shard.queue.shards},
            body=ConsumerBody(seq, hold),
            ids=[consumer],
            now_ms=now_ms,
        )
        return await self._connections.call(request, Consumer)

    async def advance(self, shard: Shard, consumer: str, seq: int, *, now_ms: int | None = None) -> Consumer:
        request = Request(
            method="PATCH",
            path=self._consumer(shard, consumer),
            query={"shards": shard.queue.shards},
            body=ConsumerBody(seq),
            ids=[consumer],
            now_ms=now_ms,
        )
        return await self._connections.call(request, Consumer)

    async def forget(self, shard: Shard, consumer: str) -> bool:
        query = {"shards": shard.queue.shards}
        request = Request(method="DELETE", path=self._consumer(shard, consumer), query=query, ids=[consumer])
        return (await self._connections.call(request, ForgetAnswer)).forgotten

    async def consumers(self, shard: Shard) -> Sequence[Consumer]:
        path, query = f"{self._connections.shard_path(shard)}/consumers", {"shards": shard.queue.shards}
        return (await self._connections.call(Request(method="GET", path=path, query=query), ConsumersAnswer)).rows

    async def trim(self, shard: Shard, *, limit: int = 1_000, now_ms: int | None = None) -> int:
        path, query = f"{self._connections.shard_path(shard)}/journal/trim", {"shards": shard.queue.shards}
        request = Request(path=path, query=query, body=TrimBody(limit), ids=[], now_ms=now_ms)
        return (await self._connections.call(request, TrimAnswer)).dropped


class HttpIntegrity:
    """Checks and repairs."""

    def __init__(self, connections: ServiceConnections) -> None:
        self._connections = connections

    def _request(self, verb: str, shard: Shard, cursor: str | None, limit: int, now_ms: int | None) -> Request:
        path = f"{self._connections.shard_path(shard)}/integrity/{verb}"
        body = IntegrityBody(limit, cursor)
        ids: list[str] | None = None if verb == "check" else []
        return Request(path=path, query={"shards": shard.queue.shards}, body=body, ids=ids, now_ms=now_ms)

    async def check(
        self, shard: Shard, *, cursor: str | None = None, limit: int = 1_000, now_ms: int | None = None
    ) -> Findings:
        return await self._connections.call(self._request("check", shard, cursor, limit, now_ms), Findings)

    async def repair(
        self, shard: Shard, *, cursor: str | None = None, limit: int = 1_000, now_ms: int | None = None
    ) -> RepairResult:
        return await self._connections.call(self._request("repair", shard, cursor, limit, now_ms), RepairResult)
