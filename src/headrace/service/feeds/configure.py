"""Lists, shows, creates, configures, sweeps and deletes feeds."""

from typing import Any

from headrace.model.errors import Refused
from headrace.model.feed import DIRECTORY, FeedConfig, FeedName
from headrace.model.limits import PAGE_MAX
from headrace.model.validate import check_int
from headrace.service.caller import RESERVED_PREFIX
from headrace.service.cursors import read_page_cursor, write_page_cursor
from headrace.service.feeds.names import instance_of, path_feed, unknown_feed, version_of_match
from headrace.service.operation import Call, Operation, PageQuery, Reply, get, post, scopes
from headrace.wire.feeds import FeedAnswer, FeedAnswers, SweepAnswer
from headrace.wire.queues import ConfigChanges


async def feeds(call: Call) -> Reply:
    """List the feeds that the token covers."""
    check_int("limit", call.query.limit, 1, PAGE_MAX)
    cursor = read_page_cursor(call, call.query.cursor)
    directory = FeedName(DIRECTORY, call.tenant)
    page = await call.store.items.list(directory, cursor=cursor, limit=call.query.limit, now_ms=call.now_ms)
    names = [each.id for each in page.rows if not each.id.startswith(RESERVED_PREFIX) and call.caller.may_name(each.id)]
    states = [await call.store.feeds.describe(FeedName(name, call.tenant)) for name in names]
    rows = [FeedAnswer.of(state) for state in states if state is not None]
    return Reply(200, FeedAnswers(rows, write_page_cursor(call, page.cursor)))


async def feed(call: Call) -> Reply:
    """Show a feed."""
    name = path_feed(call)
    state = await call.store.feeds.describe(name)
    if state is None:
        raise unknown_feed(name.name)
    return Reply(200, FeedAnswer.of(state), etag=f'"v{state.config.version}"')


async def open_feed(call: Call) -> Reply:
    """Create a feed; without If-None-Match, configure one that exists where it differs."""
    name, changes = path_feed(call), dict(call.body)
    kind = changes.pop("type", "feed")
    try:
        config = await call.store.feeds.create(name, kind, changes, instance=instance_of(call), now_ms=call.now_ms)
    except Refused as refused:
        if refused.reason != "feed_exists" or call.headers.get(b"if-none-match") == b"*":
            raise
    else:
        return _config(201, config)
    state = await call.store.feeds.describe(name)
    if state is None:
        raise unknown_feed(name.name)  # deleted in between
    if "type" in call.body and state.config.type != kind:
        raise Refused("wrong_type", f"the feed is of type {state.config.type!r}; delete it, or open it with that type")
    differing = {field: value for field, value in changes.items() if getattr(state.config, field, None) != value}
    if not differing:
        return _config(200, state.config)
    return _config(200, await _configure(call, name, differing, None))


async def configure_feed(call: Call) -> Reply:
    """Change settings of a feed."""
    return _config(200, await _configure(call, path_feed(call), call.body, version_of_match(call)))


async def _configure(call: Call, name: FeedName, changes: dict[str, Any], version: int | None) -> FeedConfig:
    return await call.store.feeds.configure(
        name, changes, instance=instance_of(call), version=version, now_ms=call.now_ms
    )


def _config(status: int, config: FeedConfig) -> Reply:
    return Reply(status, config, etag=f'"v{config.version}"')


async def delete_feed(call: Call) -> Reply:
    """Delete a feed with everything in it."""
    await call.store.feeds.delete(path_feed(call), instance=instance_of(call), now_ms=call.now_ms)
    return Reply(204)


async def sweep(call: Call) -> Reply:
    """Evict what is beyond a feed's bounds."""
    return Reply(200, SweepAnswer(await call.store.feeds.sweep(path_feed(call), now_ms=call.now_ms)))


_FEED = "/feeds/{feed}"
_READ, _WRITE = scopes("read"), scopes("feeds")
OPERATIONS: tuple[Operation, ...] = (
    get("feeds", "/feeds", "List feeds.", _READ, feeds, FeedAnswers, query=PageQuery),
    get("feed", _FEED, "Show a feed.", _READ, feed, FeedAnswer, "unknown_feed"),
    Operation(
        name="open_feed",
        method="PUT",
        path=_FEED,
        summary="Create a feed, or bring its settings to these.",
        scopes=_WRITE,
        handler=open_feed,
        body=ConfigChanges,
        answers={201: FeedConfig, 200: FeedConfig},
        problems=("feed_exists", "wrong_type", "bad_config"),
        rate="write",
        is_body_optional=True,
    ),
    Operation(
        name="configure_feed",
        method="PATCH",
        path=_FEED,
        summary="Change settings of a feed.",
        scopes=_WRITE,
        handler=configure_feed,
        body=ConfigChanges,
        answers={200: FeedConfig},
        problems=("unknown_feed", "version_changed", "bad_config"),
        rate="write",
    ),
    Operation(
        name="delete_feed",
        method="DELETE",
        path=_FEED,
        summary="Delete a feed with its items and its log.",
        scopes=_WRITE,
        handler=delete_feed,
        answers={204: None},
        problems=("unknown_feed",),
        rate="write",
    ),
    post("sweep", f"{_FEED}/sweep", "Evict what is beyond a feed's bounds.", _WRITE, sweep, None, SweepAnswer),
)
