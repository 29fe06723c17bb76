"""The feeds and items protocols: the feeds of a tenant, whose keys and directory lie in one slot, and their items."""

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from headrace.model.errors import HeadraceError, Refused, StoreUnavailable
from headrace.model.feed import (
    DIRECTORY_CONFIG,
    FeedConfig,
    FeedCursor,
    FeedName,
    FeedType,
    Item,
    ItemPosition,
    Move,
    Publication,
    check_cursor,
    check_instance,
    check_writable,
    first_feed_config,
)
from headrace.model.limits import BATCH_MAX, CONFIGURE_TRIES_MAX, PAGE_MAX
from headrace.model.results import Changes, FeedState, ItemsSnapshot, Moved, Published, Retracted
from headrace.model.validate import check_int, check_version_number
from headrace.stores.engine.feeds import SWEEPER, encode_config
from headrace.stores.engine.items import read_rank_cursor, write_rank_cursor
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.errors import ScriptRefusal
from headrace.stores.redis.fanout import as_read, now_argument
from headrace.stores.redis.keys import feed_key
from headrace.stores.redis.packing import WHERE, change_of, cursor_of, item_of, items_of, row_of
from headrace.stores.shared.validate import (
    check_call,
    check_item_ids,
    check_publication,
    feed_exists,
    feed_version_changed,
    unknown_feed,
    wrong_type,
)

_CONFIG = msgspec.json.Decoder(FeedConfig)
_DIRECTORY = encode_config(DIRECTORY_CONFIG)


class RedisFeeds:
    """Makes and deletes feeds, and reads their logs."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client

    async def create(
        self,
        feed: FeedName,
        type: FeedType = "feed",
        changes: Mapping[str, object] | None = None,
        *,
        instance: str,
        now_ms: int | None = None,
    ) -> FeedConfig:
        check_writable(feed)
        check_instance(instance)
        config = first_feed_config(type, changes)
        args = [now_argument(now_ms), instance, feed.name, encode_config(config), _DIRECTORY]
        await self._change("feed_create", feed, args)
        return config

    async def configure(
        self,
        feed: FeedName,
        changes: Mapping[str, object],
        *,
        instance: str,
        version: int | None = None,
        now_ms: int | None = None,
    ) -> FeedConfig:
        check_writable(feed)
        check_version_number(version)
        check_instance(instance)
        now = now_argument(now_ms)
        for _ in range(CONFIGURE_TRIES_MAX):
            known: bytes | None = await self._client.command("HGET", feed_key(feed), "cfg")
            if known is None:
                raise unknown_feed(feed)
            old = _CONFIG.decode(known)
            if version is not None and version != old.version:
                raise feed_version_changed(feed, old, version)
            config = old.changed(changes)
            args = [now, instance, feed.name, encode_config(config), _DIRECTORY, known]
            if await self._change("feed_configure", feed, args):
                return config
        raise StoreUnavailable(
            f"feed {str(feed)!r} was configured by others {CONFIGURE_TRIES_MAX} times in a row; try again"
        )

    async def delete(self, feed: FeedName, *, instance: str, now_ms: int | None = None) -> None:
        check_writable(feed)
        check_instance(instance)
        await self._change("feed_delete", feed, [now_argument(now_ms), instance, feed.name, _DIRECTORY])

    async def _change(self, function: str, feed: FeedName, args: Sequence[Argument]) -> Any:
        keys = [feed_key(feed), feed_key(feed.directory)]
        return await call_feed(self._client, feed, ServerCall(function, keys, [*args]))

    async def describe(self, feed: FeedName) -> FeedState | None:
        with as_read():
            answer = await self._client.call(ServerCall("feed_describe", [feed_key(feed)], []))
        if answer is None:
            return None
        config, birth, epoch, seq, *counters = answer
        return FeedState(feed, _CONFIG.decode(config), cursor_of(birth, epoch, seq), *map(int, counters))

    async def changes(self, feed: FeedName, after: FeedCursor | None = None, *, limit: int = PAGE_MAX) -> Changes:
        check_cursor(after)
        check_int("limit", limit, 1, PAGE_MAX)
        args: list[Argument] = [limit] if after is None else [limit, after.birth, after.epoch, after.seq]
        with as_read():
            answer = await self._client.call(ServerCall("feed_changes", [feed_key(feed)], args))
        if answer is None:
            return Changes("gone", [], None)
        status, birth, epoch, seq, entries = answer
        end = cursor_of(birth, epoch, seq)
        if status != b"kept":
            return Changes("gap" if status == b"gap" else "gone", [], end)
        found = [change_of(entry) for entry in entries]
        if not found:
            return Changes("kept", [], after or end)
        last = found[-1]
        return Changes("kept", found, FeedCursor(end.birth, last.epoch, last.seq), last.seq < end.seq)

    async def sweep(self, feed: FeedName, *, now_ms: int | None = None) -> int:
        args = [now_argument(now_ms), SWEEPER, int(feed.is_directory)]
        swept: int = await self._client.call(ServerCall("feed_sweep", [feed_key(feed)], [*args]))
        return swept


async def call_feed(client: RedisClient, feed: FeedName, call: ServerCall) -> Any:
    """The answer to one call about a feed, with refusals as errors, except `wrong_type`, which is left to the
    caller."""
    try:
        return await client.call(call)
    except ScriptRefusal as refusal:
        if refusal.reason == "wrong_type":
            raise
        raise _feed_refusal(feed, refusal) from refusal


def _feed_refusal(feed: FeedName, refusal: ScriptRefusal) -> HeadraceError:
    match refusal.reason:
        case "unknown_feed":
            return unknown_feed(feed)
        case "feed_exists":
            return feed_exists(feed)
        case _:
            return Refused(refusal.reason, f"feed {str(feed)!r} refused the call: {refusal}")


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
