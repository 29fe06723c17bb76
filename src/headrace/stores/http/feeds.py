"""Feeds and their items over HTTP."""

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from msgspec.structs import replace

from headrace.model.errors import Refused
from headrace.model.feed import FeedConfig, FeedCursor, FeedName, FeedType, Item, Move, Publication
from headrace.model.limits import BATCH_MAX
from headrace.model.results import Changes, FeedState, ItemsSnapshot, Moved, Published, Retracted
from headrace.model.validate import check_batch
from headrace.stores.http.connection import Request, ServiceConnections
from headrace.stores.http.jobs import parts_of
from headrace.wire.content import subject_prefix
from headrace.wire.feeds import (
    ChangesAnswer,
    FeedAnswer,
    FoundItems,
    ItemRows,
    ItemsAnswer,
    MoveAnswer,
    MoveBody,
    MoveItem,
    PositionBody,
    PublicationBody,
    PublishAnswer,
    PublishBody,
    RetractAnswer,
    SweepAnswer,
    TakeBody,
)
from headrace.wire.jobs import IdsBody


def _instance(instance: str) -> dict[str, str]:
    """The header with the name behind a change, percent-encoded: a header holds no other text."""
    return {"headrace-instance": quote(instance, safe="")}


class HttpFeeds:
    """Feeds and their logs. The service puts the subject of the token before the names behind changes; for changes of
    this token it is taken off again, so that a program knows its own."""

    def __init__(self, connections: ServiceConnections) -> None:
        self._connections = connections

    async def create(
        self,
        feed: FeedName,
        type: FeedType = "feed",
        changes: Mapping[str, object] | None = None,
        *,
        instance: str,
        now_ms: int | None = None,
    ) -> FeedConfig:
        request = Request(
            method="PUT",
            path=self._connections.feed_path(feed),
            body={"type": type, **(changes or {})},
            headers={"if-none-match": "*", **_instance(instance)},
            ids=[feed.name],
            now_ms=now_ms,
        )
        return await self._connections.call(request, FeedConfig)

    async def configure(
        self,
        feed: FeedName,
        changes: Mapping[str, object],
        *,
        instance: str,
        version: int | None = None,
        now_ms: int | None = None,
    ) -> FeedConfig:
        request = Request(
            method="PATCH",
            path=self._connections.feed_path(feed),
            body=dict(changes),
            headers=_instance(instance) | ({} if version is None else {"if-match": f'"v{version}"'}),
            ids=[feed.name],
            now_ms=now_ms,
        )
        return await self._connections.call(request, FeedConfig)

    async def delete(self, feed: FeedName, *, instance: str, now_ms: int | None = None) -> None:
        path, headers = self._connections.feed_path(feed), _instance(instance)
        request = Request(method="DELETE", path=path, headers=headers, ids=[feed.name], now_ms=now_ms)
        await self._connections.call(request, object)

    async def describe(self, feed: FeedName) -> FeedState | None:
        request = Request(method="GET", path=self._connections.feed_path(feed))
        try:
            return (await self._connections.call(request, FeedAnswer)).state(feed.tenant)
        except Refused as refused:
            if refused.reason == "unknown_feed":
                return None
            raise

    async def changes(self, feed: FeedName, after: FeedCursor | None = None, *, limit: int = 1_000) -> Changes:
        query = {"after": after, "limit": limit}
        request = Request(method="GET", path=f"{self._connections.feed_path(feed)}/changes", query=query)
        found = (await self._connections.call(request, ChangesAnswer)).model()
        own = subject_prefix(self._connections.subject)
        return replace(found, rows=[replace(row, instance=row.instance.removeprefix(own)) for row in found.rows])

    async def sweep(self, feed: FeedName, *, now_ms: int | None = None) -> int:
        request = Request(path=f"{self._connections.feed_path(feed)}/sweep", ids=[], now_ms=now_ms)
        return (await self._connections.call(request, SweepAnswer)).swept


class HttpItems:
    """Items of feeds."""

    def __init__(self, connections: ServiceConnections) -> None:
        self._connections = connections

    def _path(self, feed: FeedName, verb: str = "") -> str:
        return f"{self._connections.feed_path(feed)}/items{verb}"

    async def publish(
        self, feed: FeedName, publications: Sequence[Publication], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Published]:
        check_batch("publications", len(publications), BATCH_MAX)
        answers: list[Published] = []
        for part in parts_of(publications, lambda each: len(each.item)):
            request = Request(
                path=self._path(feed),
                body=PublishBody([PublicationBody.of(each) for each in part]),
                headers=_instance(instance),
                ids=[each.id or "" for each in part],
                now_ms=now_ms,
            )
            answers += (await self._connections.call(request, PublishAnswer)).results
        return answers

    async def retract(
        self, feed: FeedName, ids: Sequence[str], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Retracted]:
        path, headers = self._path(feed, "/retract"), _instance(instance)
        request = Request(path=path, body=IdsBody(list(ids)), headers=headers, ids=ids, now_ms=now_ms)
        return (await self._connections.call(request, RetractAnswer)).results

    async def move(
        self, feed: FeedName, moves: Sequence[Move], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Moved]:
        bodies = [MoveItem(each.id, PositionBody(each.position.where, each.position.id)) for each in moves]
        ids = [each.id for each in moves]
        path, headers = self._path(feed, "/move"), _instance(instance)
        request = Request(path=path, body=MoveBody(bodies), headers=headers, ids=ids, now_ms=now_ms)
        return (await self._connections.call(request, MoveAnswer)).results

    async def take(self, feed: FeedName, limit: int = 1, *, now_ms: int | None = None) -> Sequence[Item]:
        request = Request(path=self._path(feed, "/take"), body=TakeBody(limit), ids=[], now_ms=now_ms)
        return [each.model() for each in (await self._connections.call(request, ItemsAnswer)).items]

    async def find(self, feed: FeedName, ids: Sequence[str], *, now_ms: int | None = None) -> Sequence[Item | None]:
        request = Request(path=self._path(feed, "/find"), body=IdsBody(list(ids)), now_ms=now_ms)
        rows = (await self._connections.call(request, FoundItems)).rows
        return [None if row is None else row.model() for row in rows]

    async def list(
        self, feed: FeedName, *, cursor: str | None = None, limit: int = 1_000, now_ms: int | None = None
    ) -> ItemsSnapshot:
        query = {"cursor": cursor, "limit": limit}
        request = Request(method="GET", path=self._path(feed), query=query, now_ms=now_ms)
        return (await self._connections.call(request, ItemRows)).model()

    async def snapshot(self, feed: FeedName, *, now_ms: int | None = None) -> ItemsSnapshot:
        path = f"{self._connections.feed_path(feed)}/snapshot"
        return (await self._connections.call(Request(method="GET", path=path, now_ms=now_ms), ItemRows)).model()
