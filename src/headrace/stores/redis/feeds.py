"""The feeds protocol: feeds of a tenant, whose keys and directory lie in one slot."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headrace.model.errors import HeadraceError, Refused, StoreUnavailable
from headrace.model.feed import (
    DIRECTORY_CONFIG,
    FeedConfig,
    FeedCursor,
    FeedName,
    FeedType,
    check_cursor,
    check_instance,
    check_writable,
    first_feed_config,
)
from headrace.model.limits import CONFIGURE_TRIES_MAX, PAGE_MAX
from headrace.model.results import Changes, FeedState
from headrace.model.validate import check_int, check_version_number
from headrace.stores.engine.feeds import SWEEPER, encode_config
from headrace.stores.redis.client import Argument, RedisClient, ServerCall
from headrace.stores.redis.errors import ScriptRefusal
from headrace.stores.redis.fanout import as_read, now_argument
from headrace.stores.redis.keys import feed_key
from headrace.stores.redis.packing import change_of, cursor_of
from headrace.stores.shared.validate import feed_exists, feed_version_changed, unknown_feed

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
