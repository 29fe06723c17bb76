"""Statistics as items of the tenants' feeds: published, edited where they differ, and left alone where they do not."""

from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b

import msgspec
from msgspec import Struct

from headrace.feeds.publishing import parts, refusal
from headrace.model.errors import BadConfig
from headrace.model.feed import FeedName, FeedType, Publication
from headrace.model.feed_answers import FeedState
from headrace.model.limits import ID_CHARS_MAX
from headrace.model.times import instant_text
from headrace.pipeline.source.write.patience import patiently
from headrace.pipeline.source.write.report import make_feed
from headrace.pipeline.stats.columns import ROW, Row
from headrace.pipeline.stats.merge import Visited
from headrace.stores.contract.store import Store

_INSTANCE = "spark stats"
_encode = msgspec.json.Encoder().encode


class _Feed(Struct, frozen=True):
    """A feed as far as publishing needs to know it."""

    name: FeedName
    type: FeedType
    items_max: int
    floor: str
    """Items of windows up to this one may have been evicted, and are not published again."""


class Publisher:
    """Publishes windows to the feed of this name of each tenant; it is created where it is missing."""

    def __init__(self, store: Store, feed: str, window_ms: int) -> None:
        self._store = store
        self._feed = feed
        self._window_ms = window_ms
        self._rows: dict[str, deque[Publication]] = {}
        self._feeds: dict[str, _Feed] = {}

    async def add(self, visited: Visited) -> None:
        """Take a window to be published with the next `flush`; windows come oldest first. What the feed would evict
        again is not kept."""
        for row in visited.rows:
            tenant = row["tenant"]
            if tenant not in self._feeds:
                self._feeds[tenant] = await self._described(FeedName(self._feed, tenant))
                self._rows[tenant] = deque(maxlen=self._feeds[tenant].items_max)
            self._rows[tenant].append(publication(visited.start_ms, self._window_ms, row))

    async def flush(self) -> int:
        """Publish what differs, and say how many items that were."""
        written = 0
        for tenant, rows in self._rows.items():
            for part in parts(rows):
                written += await self._publish(self._feeds[tenant], part)
            rows.clear()
        return written

    async def _publish(self, feed: _Feed, publications: Sequence[Publication]) -> int:
        ids = [each.id or "" for each in publications]
        there = await patiently(lambda: self._store.items.find(feed.name, ids))
        changed: list[Publication] = []
        for each, item in zip(publications, there, strict=True):
            if item is None and _window(each.id or "") > feed.floor:
                changed.append(each)
            elif item is not None and item.item != each.item:
                # In a sorted feed an edit keeps its place.
                changed.append(msgspec.structs.replace(each, edit=feed.type == "sorted"))
        if changed:
            answers = await patiently(lambda: self._store.items.publish(feed.name, changed, instance=_INSTANCE))
            for each, answer in zip(changed, answers, strict=True):
                if not answer.ok:
                    raise refusal(feed.name, each, answer)
        return len(changed)

    async def _described(self, name: FeedName) -> _Feed:
        state = await patiently(lambda: self._store.feeds.describe(name))
        if state is None:
            await make_feed(self._store, name, _INSTANCE)
            state = await patiently(lambda: self._store.feeds.describe(name))
        if state is None or state.config.type == "plain":
            raise BadConfig(f"feed {str(name)!r} is a plain queue, whose items cannot be edited; name another feed")
        return _Feed(name, state.config.type, state.config.items_max, await self._floor(state))

    async def _floor(self, state: FeedState) -> str:
        """The window of the oldest item of a feed that is full, or that drops items by age; "" of others."""
        config = state.config
        if config.type != "feed" or (state.items < config.items_max and not config.items_keep_ms):
            return ""
        page = await patiently(lambda: self._store.items.list(state.feed, limit=1))
        return _window(page.rows[0].id) if page.rows else ""


def publication(start_ms: int, window_ms: int, row: Row) -> Publication:
    """A row as an item: its id says which window, queue and kind, and the item is the row as it is in the files."""
    start, end = _text(start_ms), _text(start_ms + window_ms)
    item = {"window_start": start, "window_end": end, **{name: row[name] for name in ROW.names}}
    return Publication(_encode(item), _id(f"{start}/{row['queue']}/{row['kind'] or ''}"))


def _text(at_ms: int) -> str:
    return f"{instant_text(at_ms)[:19]}Z"


def _id(text: str) -> str:
    """The text itself, unless the longest names meet: then its beginning and a digest."""
    if len(text) <= ID_CHARS_MAX:
        return text
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"{text[: ID_CHARS_MAX - len(digest) - 1]}~{digest}"


def _window(id: str) -> str:
    return id.partition("/")[0]


async def publish(store: Store, feed: str, window_ms: int, windows: Iterable[Visited]) -> int:
    """Publish windows, oldest first, and say how many items were written."""
    publisher = Publisher(store, feed, window_ms)
    for each in windows:
        await publisher.add(each)
    return await publisher.flush()
