"""The items protocol: publishes, moves, takes and lists the items of a feed."""

import builtins
from collections.abc import Callable, Sequence
from typing import Any, Literal

from headrace.model.feed import FeedName, Item, ItemPosition, Move, Publication, check_writable
from headrace.model.limits import BATCH_MAX, PAGE_MAX
from headrace.model.results import ItemsSnapshot, Moved, Published, Retracted
from headrace.model.validate import check_int
from headrace.stores.engine.items import read_rank_cursor, write_rank_cursor
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.errors import ScriptRefusal
from headrace.stores.redis.fanout import now_argument
from headrace.stores.redis.feeds import call_feed
from headrace.stores.redis.keys import feed_key
from headrace.stores.redis.packing import WHERE, cursor_of, item_of, items_of, row_of
from headrace.stores.shared.validate import check_call, check_item_ids, check_publication, wrong_type

_PUBLISHED: dict[str, Literal["published", "edited", "known", "unknown", "unknown_neighbour", "full"]] = {
    "p": "published",
    "e": "edited",
    "k": "known",
    "u": "unknown",
    "n": "unknown_neighbour",
    "f": "full",
}
_MOVED: dict[str, Literal["moved", "unchanged", "unknown", "unknown_neighbour"]] = {
    "m": "moved",
    "-": "unchanged",
    "u": "unknown",
    "n": "unknown_neighbour",
}


class RedisItems:
    """Items of feeds, in the order of the feed."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    async def publish(
        self, feed: FeedName, publications: Sequence[Publication], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Published]:
        check_call(feed, "publications", len(publications), instance)
        if not publications:
            return []
        args: list[Argument] = [now_argument(now_ms), instance]
        for each in publications:
            where, neighbour = _position_args(each.position)
            args += ["e" if each.edit else where, each.id or "", neighbour, each.item]

        def refuse(type: str) -> None:
            for each in publications:
                check_publication(feed, type, each)

        signs, *new_ids = await self._call(feed, "item_publish", args, refuse)
        ids_left = iter(new_ids)
        return [
            Published(next(ids_left).decode() if each.id is None and sign == "p" else each.id, _PUBLISHED[sign])
            for each, sign in zip(publications, signs.decode(), strict=True)
        ]

    async def retract(
        self, feed: FeedName, ids: Sequence[str], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Retracted]:
        check_call(feed, "ids", len(ids), instance)
        check_item_ids(ids)
        if not ids:
            return []
        signs = await self._call(feed, "item_retract", [now_argument(now_ms), instance, *ids])
        found = zip(ids, signs.decode(), strict=True)
        return [Retracted(id, "retracted" if sign == "1" else "not_found") for id, sign in found]

    async def move(
        self, feed: FeedName, moves: Sequence[Move], *, instance: str, now_ms: int | None = None
    ) -> Sequence[Moved]:
        check_call(feed, "moves", len(moves), instance)
        if not moves:
            return []
        args: list[Argument] = [now_argument(now_ms), instance]
        for each in moves:
            where, neighbour = _position_args(each.position)
            args += [where, each.id, neighbour]
        signs = await self._call(feed, "item_move", args, _type_refusal(feed, "move items"))
        return [Moved(each.id, _MOVED[sign]) for each, sign in zip(moves, signs.decode(), strict=True)]

    async def take(self, feed: FeedName, limit: int = 1, *, now_ms: int | None = None) -> Sequence[Item]:
        check_writable(feed)
        check_int("limit", limit, 1, BATCH_MAX)
        now_argument(now_ms)
        return items_of(await self._call(feed, "item_take", [limit], _type_refusal(feed, "hand out items")))

    async def find(self, feed: FeedName, ids: Sequence[str], *, now_ms: int | None = None) -> Sequence[Item | None]:
        check_item_ids(ids)
        answer = await self._read(feed, "item_find", [now_argument(now_ms), *ids])
        if answer is None:
            return [None] * len(ids)
        over_ms, *rows = answer
        found = [None if row is None else item_of(id, row) for id, row in zip(ids, rows, strict=True)]
        return [None if item is None or item.at_ms <= int(over_ms) else item for item in found]

    async def list(
        self, feed: FeedName, *, cursor: str | None = None, limit: int = PAGE_MAX, now_ms: int | None = None
    ) -> ItemsSnapshot:
        check_int("limit", limit, 1, PAGE_MAX)
        rank, last_id = read_rank_cursor(cursor)
        answer = await self._read(feed, "item_list", [now_argument(now_ms), limit, rank, last_id])
        if answer is None:
            return ItemsSnapshot([], None)
        birth, epoch, seq, is_more, flat = answer
        more = write_rank_cursor(row_of(*flat[-2:])) if flat and is_more else None
        return ItemsSnapshot(items_of(flat), cursor_of(birth, epoch, seq), more)

    async def snapshot(self, feed: FeedName, *, now_ms: int | None = None) -> ItemsSnapshot:
        answer = await self._read(feed, "item_snapshot", [now_argument(now_ms)])
        if answer is None:
            return ItemsSnapshot([], None)
        birth, epoch, seq, over_ms, flat = answer
        rows = [item for item in items_of(flat) if item.at_ms > int(over_ms)]
        return ItemsSnapshot(rows, cursor_of(birth, epoch, seq))

    async def _read(self, feed: FeedName, function: str, args: "builtins.list[Argument]") -> Any:
        return await self._client.call(ServerCall(function, [feed_key(feed)], args, reads=True))

    async def _call(
        self,
        feed: FeedName,
        function: str,
        args: "builtins.list[Argument]",
        refuse: Callable[[str], None] | None = None,
    ) -> Any:
        """The answer to a call; `refuse` raises the error for a feed of another type."""
        try:
            return await call_feed(self._client, feed, ServerCall(function, [feed_key(feed)], args))
        except ScriptRefusal as refusal:
            type = refusal.details
            if refuse is not None:
                refuse(type)
            raise wrong_type(feed, type, "do this") from refusal


def _type_refusal(feed: FeedName, wanted: str) -> Callable[[str], None]:
    def refuse(type: str) -> None:
        raise wrong_type(feed, type, wanted)

    return refuse


def _position_args(position: ItemPosition) -> tuple[str, str]:
    return WHERE[position.where], position.id or ""
