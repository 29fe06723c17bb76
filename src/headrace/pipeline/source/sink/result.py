"""Counts the rows of a write in each task, adds up the counts, and publishes them to a feed."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from pyspark.sql.datasource import WriterCommitMessage

from headrace.client.tasks import retry
from headrace.model.errors import Refused
from headrace.model.feed import FeedName, Publication
from headrace.model.limits import WRITE_KEYS_MAX
from headrace.model.names import RANDOM_BYTES, uuid7
from headrace.model.validate import cut
from headrace.pipeline.source.store_access import check_host, this_host
from headrace.stores.contract.store import Store


class WriteRun(Struct, frozen=True):
    """One run of a write, made on the driver before the first task; all attempts of all tasks get the same one.

    Rows that the store accepted at or after the start belong to this run.
    """

    id: str
    started_at_ms: int
    planned_on: str

    def check_host(self, url: str) -> None:
        """Refuse a task on another machine than that of the store's file."""
        check_host(url, self.planned_on)


async def new_run(store: Store, id: str | None) -> WriteRun:
    """A run that starts now."""
    started_at_ms = await store.now_ms()
    return WriteRun(id or uuid7(started_at_ms, os.urandom(RANDOM_BYTES)), started_at_ms, this_host())


HASH_BYTES = 8
EXAMPLE_CHARS_MAX = 300
"""Of a sentence in a report, which may quote an unreadable row; the kept row has all of it."""
FIRSTS = {"jobs": "created", "dead": "replayed", "feed": "written"}
"""The default outcome of a row that this run has written."""


class Written(Struct, frozen=True, kw_only=True):
    """The outcomes of the rows of a write.

    Correct even if Spark repeats tasks: rows of a failed attempt count for the run. Every row is counted once: all
    counts and those of `refused` add up to `rows`."""

    run: str
    what: str
    rows: int = 0
    created: int = 0
    """New jobs."""
    updated: int = 0
    """Waiting jobs with the row's id that were changed."""
    blocked: int = 0
    """Jobs that wait behind an active job with their id."""
    duplicate: int = 0
    """Rows whose key an earlier run has written; nothing was done."""
    replayed: int = 0
    """Dead letters that are jobs again."""
    not_found: int = 0
    """Rows whose dead letter does not exist."""
    in_use: int = 0
    """Rows whose dead letter stays because its id is waiting, blocked or active."""
    written: int = 0
    """Items that were published or edited."""
    unchanged: int = 0
    """Items that existed unchanged before this run."""
    folded: int = 0
    """Rows equal to another row of this run."""
    refused: dict[str, int] = {}
    """Rows that the store refuses, by reason."""
    examples: dict[str, str] = {}
    """A sentence for each reason."""
    refused_folder: str | None = None
    """The folder of the refused rows; None without any, or without option `refusedDir`."""
    exact: bool = True
    """False beyond 20 million rows: then the written rows are a lower bound, and the folded ones an upper bound."""
    started_at_ms: int = 0
    ended_at_ms: int = 0

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self) -> str:
        """The counts as a sentence, with an example of a refusal."""
        parts = [f"{count:,} {name}" for name, count in self.counts().items() if count]
        text = f"of {self.rows:,} rows {', '.join(parts) if parts else 'none was written'}"
        text += "" if self.exact else " (at least, folded at most)"
        if not self.refused:
            return text
        refused = ", ".join(f"{reason} {count:,}" for reason, count in sorted(self.refused.items()))
        example = self.examples[max(self.refused, key=lambda reason: self.refused[reason])]
        return f"{text}, {sum(self.refused.values()):,} refused ({refused}); for example: {example}"

    def counts(self) -> dict[str, int]:
        """The counts of the rows that were not refused."""
        names = ("created", "updated", "blocked", "duplicate", "replayed", "not_found", "in_use", "written")
        return {name: getattr(self, name) for name in (*names, "unchanged", "folded")}


@dataclass
class WriteTally:
    """The counts of one task, as they grow."""

    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """By the fields of `Written`; of the rows of this run, only those that this attempt wrote."""
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    hashes: bytearray = field(default_factory=bytearray)
    """Eight bytes for each row that any attempt of this run has written; equal for equal rows."""
    ours: int = 0
    """The number of these rows, beyond the limit of `hashes`, too."""
    refused_file: str | None = None
    """The file of the refused rows."""

    def refuse(self, reason: str, sentence: str) -> None:
        """Count a row that cannot be written."""
        self.refused[reason] += 1
        self.examples.setdefault(reason, cut(sentence, EXAMPLE_CHARS_MAX))

    def put_in(self, hashes: bytes) -> None:
        """Count rows that this run has written."""
        self.ours += len(hashes) // HASH_BYTES
        if self.ours <= WRITE_KEYS_MAX:
            self.hashes += hashes


@dataclass
class Message(WriterCommitMessage):
    """The message of a task to the driver."""

    run: WriteRun
    tally: WriteTally
    query_id: str | None = None
    """Of a stream."""


def total(what: str, run: WriteRun, tallies: Sequence[WriteTally], ended_at_ms: int) -> Written:
    """The sum of the tasks of a run: a row that several report as written is counted once."""
    counts, refused = Counter[str](), Counter[str]()
    examples: dict[str, str] = {}
    for tally in tallies:
        counts += tally.counts
        refused += tally.refused
        examples = tally.examples | examples
    first, ours = FIRSTS[what], sum(tally.ours for tally in tallies)
    changed = counts["updated"] + counts["blocked"]
    exact = ours <= WRITE_KEYS_MAX
    distinct = _distinct(tallies) if exact else counts[first] + changed
    counts[first] = max(distinct - changed, 0)
    counts["folded"] = ours - distinct
    added: dict[str, Any] = dict(counts)
    return Written(
        run=run.id,
        what=what,
        rows=sum(tally.rows for tally in tallies),
        **added,
        refused=dict(refused),
        examples=examples,
        exact=exact,
        started_at_ms=run.started_at_ms,
        ended_at_ms=ended_at_ms,
    )


def _distinct(tallies: Sequence[WriteTally]) -> int:
    hashes = np.frombuffer(b"".join(bytes(tally.hashes) for tally in tallies), dtype=np.uint64)
    return len(np.unique(hashes))


_encode = msgspec.json.Encoder().encode
_INSTANCE = "spark"


class _StartedReport(Struct):
    """The start of a write, from its report."""

    started_at_ms: int


_decode_started = msgspec.json.Decoder(_StartedReport).decode


async def publish_report(store: Store, feed: FeedName, written: Written) -> None:
    """Publish the counts as an item of a feed, which is created if it is missing."""
    await retry(lambda: _publish(store, feed, written.run, _encode(written)))


async def first_start(store: Store, feed: FeedName, run: WriteRun) -> int:
    """The first start of a write that may be repeated, such as a batch of a stream: rows of a failed attempt count for
    the batch."""
    [item] = await retry(lambda: store.items.find(feed, [run.id]))
    if item is not None:
        return _decode_started(item.item).started_at_ms
    started = _encode({"run": run.id, "what": "", "started_at_ms": run.started_at_ms})
    await retry(lambda: _publish(store, feed, run.id, started))
    return run.started_at_ms


async def _publish(store: Store, feed: FeedName, id: str, item: bytes) -> None:
    try:
        await store.items.publish(feed, [Publication(item, id)], instance=_INSTANCE)
    except Refused as refused:
        if refused.reason != "unknown_feed":
            raise
        await make_feed(store, feed, _INSTANCE)
        await store.items.publish(feed, [Publication(item, id)], instance=_INSTANCE)


async def make_feed(store: Store, feed: FeedName, instance: str) -> None:
    """Create a feed unless it exists."""
    try:
        await store.feeds.create(feed, instance=instance)
    except Refused as refused:
        if refused.reason != "feed_exists":  # another task was faster
            raise
