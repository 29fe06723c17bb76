"""Statistics as items of the tenants' feeds: published, edited where they differ, and left alone where they do not."""

from collections import deque
from collections.abc import Collection, Sequence
from functools import partial
from hashlib import blake2b

import msgspec
from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.client.tasks import retry
from headrace.feeds.feed import batches, refusal
from headrace.model.errors import BadConfig, HeadraceError
from headrace.model.feed import FeedName, FeedType, Publication
from headrace.model.limits import ID_CHARS_MAX
from headrace.model.results import FeedState
from headrace.model.times import instant_text, read_instant_ms
from headrace.pipeline.source.sink.result import make_feed
from headrace.pipeline.stats.table import StatsChange, read_windows
from headrace.pipeline.storage.table import DataTable
from headrace.pipeline.tables.layouts import WINDOW_ROW, Row, key_of
from headrace.stores.contract.store import Store

_INSTANCE = "spark stats"
_encode = msgspec.json.Encoder().encode


class _Feed(Struct, frozen=True):
    """A feed as far as publishing needs to know it."""

    name: FeedName
    type: FeedType
    items_max: int
    evicts: bool
    """Whether an item that is not there may have been."""
    floor_ms: int
    """Windows up to this one may have been evicted before this folder knew of the feed."""


class Publisher:
    """Publishes windows to the feed of this name of each tenant; it is created where it is missing.

    An item that is there is edited if it differs. One that is missing is published, but what a feed has evicted must
    not come back and push out what is newer. Where that may be, only rows are published that the table did not have
    before, and those from the window `since_ms` on, which nobody knows to be published (None when all are). `floors`
    says what each feed held when the table first published to it, and is added to.
    """

    def __init__(self, store: Store, feed: str, window_ms: int, since_ms: int | None, floors: dict[str, int]) -> None:
        self._store = store
        self._feed = feed
        self._window_ms = window_ms
        self._since_ms = since_ms
        self._floors = floors
        self._rows: dict[str, deque[tuple[Publication, bool]]] = {}
        self._feeds: dict[str, _Feed] = {}

    async def add(self, start_ms: int, row: Row, *, is_added: bool) -> None:
        """Take a row to be published with the next `flush`; windows come oldest first. What the feed would evict again
        is not kept."""
        tenant = row["tenant"]
        if tenant not in self._feeds:
            self._feeds[tenant] = await self._described(FeedName(self._feed, tenant))
            self._rows[tenant] = deque(maxlen=self._feeds[tenant].items_max)
        is_due = self._is_due(start_ms, self._feeds[tenant], is_added=is_added)
        self._rows[tenant].append((publication(start_ms, self._window_ms, row), is_due))

    async def flush(self) -> int:
        """Publish what differs, and say how many items that were."""
        written = 0
        for tenant, rows in self._rows.items():
            due = {each.id for each, is_due in rows if is_due}
            for part in batches(each for each, _ in rows):
                written += await self._publish(self._feeds[tenant], part, due)
            rows.clear()
        return written

    def _is_due(self, start_ms: int, feed: _Feed, *, is_added: bool) -> bool:
        """Whether an item is to be published if it is missing."""
        if not feed.evicts:
            return True
        is_unknown = self._since_ms is not None and start_ms >= self._since_ms
        return start_ms > feed.floor_ms and (is_unknown or is_added)

    async def _publish(self, feed: _Feed, publications: Sequence[Publication], due: Collection[str | None]) -> int:
        ids = [each.id or "" for each in publications]
        there = await retry(lambda: self._store.items.find(feed.name, ids))
        changed: list[Publication] = []
        for each, item in zip(publications, there, strict=True):
            if item is None and each.id in due:
                changed.append(each)
            elif item is not None and item.item != each.item:
                # In a sorted feed an edit keeps its place.
                changed.append(msgspec.structs.replace(each, edit=feed.type == "sorted"))
        if changed:
            answers = await retry(lambda: self._store.items.publish(feed.name, changed, instance=_INSTANCE))
            for each, answer in zip(changed, answers, strict=True):
                if not answer.ok:
                    raise refusal(feed.name, each, answer)
        return len(changed)

    async def _described(self, name: FeedName) -> _Feed:
        state = await retry(lambda: self._store.feeds.describe(name))
        if state is None:
            await make_feed(self._store, name, _INSTANCE)
            state = await retry(lambda: self._store.feeds.describe(name))
        if state is None or state.config.type == "queue":
            raise BadConfig(f"feed {str(name)!r} is an item queue, whose items cannot be edited; name another feed")
        evicts = _may_evict(state)
        if str(name) not in self._floors:
            self._floors[str(name)] = await self._floor(state) if evicts and state.total else -1
        return _Feed(name, state.config.type, state.config.items_max, evicts, self._floors[str(name)])

    async def _floor(self, state: FeedState) -> int:
        """The last window that a feed holds, or that its items may be too old for."""
        keep_ms = state.config.items_keep_ms
        floor_ms = await self._store.now_ms() - keep_ms if keep_ms else -1
        page = await retry(lambda: self._store.items.list(state.feed))
        while True:
            floor_ms = max(floor_ms, *(_start(item.id) for item in page.rows), -1)
            cursor = page.cursor
            if cursor is None:
                return floor_ms
            page = await retry(partial(self._store.items.list, state.feed, cursor=cursor))


def _may_evict(state: FeedState) -> bool:
    config = state.config
    return config.type == "feed" and (state.items >= config.items_max or config.items_keep_ms > 0)


def publication(start_ms: int, window_ms: int, row: Row) -> Publication:
    """A row as an item: its id says which window, queue and kind, and the item is the row as it is in the files."""
    start, end = _text(start_ms), _text(start_ms + window_ms)
    item = {"window_start": start, "window_end": end, **{name: row[name] for name in WINDOW_ROW.names}}
    return Publication(_encode(item), _id(f"{start}/{row['queue']}/{row['kind'] or ''}"))


def _text(at_ms: int) -> str:
    return f"{instant_text(at_ms)[:19]}Z"


def _id(text: str) -> str:
    """The text itself, unless the longest names meet: then its beginning and a digest."""
    if len(text) <= ID_CHARS_MAX:
        return text
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()
    return f"{text[: ID_CHARS_MAX - len(digest) - 1]}~{digest}"


def _start(id: str) -> int:
    """The window of an item; -1 of one that is none of ours."""
    text, slash, _ = id.partition("/")
    try:
        return read_instant_ms("window", text) if slash and text.endswith("Z") else -1
    except HeadraceError:
        return -1


async def publish_change(
    store: Store, feed: str, table: DataTable, spark: SparkSession, change: StatsChange, floors: dict[str, int]
) -> int:
    """Publish what a change of the table has changed, and what was not published before; say how many items that were.

    Windows behind the first one that has changed are compared as well, since their backlog follows from it.
    """
    known = [at_ms for at_ms in (change.first_ms, change.unpublished_ms) if at_ms is not None]
    if not known:
        return 0
    first_ms = min(known)
    publisher = Publisher(store, feed, change.state.window_ms, change.unpublished_ms, floors)
    rows = read_windows(table, spark, change.state, first_ms).select(
        F.unix_millis("window_start").alias("start_ms"), *WINDOW_ROW.names
    )
    for row in rows.orderBy("start_ms", "tenant", "queue", "kind").toLocalIterator():
        found = row.asDict()
        start_ms = found.pop("start_ms")
        await publisher.add(start_ms, found, is_added=(start_ms, key_of(found)) in change.added)
    return await publisher.flush()
