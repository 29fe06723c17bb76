"""Publishes rows as items of feeds, edits items that differ, and leaves equal ones alone."""

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import repeat
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from headrace.client.tasks import retry
from headrace.feeds.feed import batches, refusal
from headrace.model.errors import BadConfig, Refused
from headrace.model.feed import FeedName, FeedType, Item, Publication
from headrace.model.results import Published
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.sink.columns import (
    JSON_VALUE,
    TEXT,
    ColumnSpec,
    check_columns,
    json_texts,
    row_keys,
    texts,
)
from headrace.pipeline.source.sink.result import HASH_BYTES, WriteRun, WriteTally
from headrace.stores.contract.store import Store

COLUMNS: dict[str, ColumnSpec] = {"id": TEXT, "item": JSON_VALUE, "feed": TEXT}
_HINT = "put it into the item, for example with struct(…), or leave it out"


class FeedSink:
    """Publishes an item for each row; an item without an id gets one from its content."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._names = check_columns("feed", schema, COLUMNS, hint=_HINT)
        if "item" not in self._names:
            raise BadConfig("a feed needs items; give a column 'item', for example with to_json(struct(…))")
        if "feed" not in self._names and options.name is None:
            raise BadConfig("items need a feed; give a column 'feed' or option feed")

    async def check(self, store: Store) -> None:
        """Refuse options whose feed does not exist."""
        if self._options.name is not None:
            feed = FeedName(self._options.name, self._options.tenant)
            if await store.feeds.describe(feed) is None:
                raise BadConfig(str(_unknown(feed)))

    async def write(self, store: Store, run: WriteRun, rows: Iterator[pa.RecordBatch]) -> WriteTally:
        """Publish a task's rows."""
        tally = WriteTally()
        task = _FeedTask(store, run, tally)
        for batch in rows:
            tally.rows += batch.num_rows
            for feed, publications in self._publications(batch, tally).items():
                for part in batches(publications):
                    await task.publish(feed, part)
        return tally

    def _publications(self, batch: pa.RecordBatch, tally: WriteTally) -> dict[FeedName, list[Publication]]:
        """The items of the rows, by feed."""
        cells: dict[str, Any] = {}
        for at, name in enumerate(self._names):
            column = batch.column(at)
            cells[name] = json_texts("item", column) if name == "item" else texts(column)
        hashes = row_keys({"item": [_hashable(item) for item in cells["item"]]})
        ids = hashes if "id" not in cells else (id or derived for id, derived in zip(cells["id"], hashes, strict=True))
        found: dict[FeedName, list[Publication]] = {}
        for name, id, item in zip(cells.get("feed", repeat(None, batch.num_rows)), ids, cells["item"], strict=True):
            try:
                feed = self._feed(name)
                if isinstance(item, Refused):
                    raise item
                found.setdefault(feed, []).append(Publication(item, id))
            except Refused as refused:
                tally.refuse(refused.reason, str(refused))
        return found

    def _feed(self, name: str | None) -> FeedName:
        name = name or self._options.name
        if name is None:
            raise Refused("bad_feed", "the row names no feed; fill column 'feed', or give option feed")
        return FeedName(name, self._options.tenant)


class _FeedTask:
    """Publishes items to feeds and counts the outcomes."""

    def __init__(self, store: Store, run: WriteRun, tally: WriteTally) -> None:
        self._store = store
        self._run = run
        self._tally = tally
        self._types: dict[FeedName, FeedType | None] = {}

    async def publish(self, feed: FeedName, publications: Sequence[Publication]) -> None:
        """Publish new and changed items."""
        if feed not in self._types:
            state = await self._store.feeds.describe(feed)
            self._types[feed] = None if state is None else state.config.type
        if self._types[feed] is None:
            for _ in publications:
                self._tally.refuse("unknown_feed", str(_unknown(feed)))
            return
        distinct = list(dict.fromkeys(publications))
        ours = [each.id or "" for each, times in Counter(publications).items() for _ in range(times - 1)]
        changed, unchanged = await self._split_unchanged(feed, distinct)
        for item in unchanged:
            if item.at_ms >= self._run.started_at_ms:
                ours.append(item.id)
            else:
                self._tally.counts["unchanged"] += 1
        for publication, answer in await retry(lambda: self._send(feed, changed)):
            if answer.ok:
                self._tally.counts["written"] += 1
                ours.append(publication.id or "")
            else:
                refused = refusal(feed, publication, answer)
                self._tally.refuse(refused.reason, str(refused))
        self._tally.put_in(b"".join(_hash(feed, id) for id in ours))

    async def _split_unchanged(
        self, feed: FeedName, publications: Sequence[Publication]
    ) -> tuple[list[Publication], list[Item]]:
        """The publications to send, and the unchanged items."""
        items = await retry(lambda: self._store.items.find(feed, [each.id or "" for each in publications]))
        changed: list[Publication] = []
        unchanged: list[Item] = []
        for publication, item in zip(publications, items, strict=True):
            if item is not None and item.item == publication.item:
                unchanged.append(item)
            elif item is not None and self._types[feed] == "sorted":
                changed.append(Publication(publication.item, publication.id, edit=True))  # it keeps its position
            else:
                changed.append(publication)
        return changed, unchanged

    async def _send(self, feed: FeedName, publications: Sequence[Publication]) -> list[tuple[Publication, Published]]:
        answers = await self._store.items.publish(feed, publications, instance=f"spark {self._run.id[:100]}")
        return list(zip(publications, answers, strict=True))


def _unknown(feed: FeedName) -> Refused:
    return Refused(
        "unknown_feed",
        f"there is no feed {feed.name!r} of tenant {feed.tenant!r}; create it first, for example with: headrace feeds"
        f" create {feed.name}",
    )


def _hashable(item: bytes | Refused) -> bytes:
    return b"" if isinstance(item, Refused) else item


def _hash(feed: FeedName, id: str) -> bytes:
    return blake2b(f"{feed}\0{id}".encode(errors="surrogatepass"), digest_size=HASH_BYTES).digest()
