"""Counts the rows of a write in each task, adds the counts up, and publishes them to a feed."""

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
    """Made on the driver before the first task starts; every task, tried again or not, gets the same one.

    What a store says it took in at or after the start was taken in by this run.
    """

    id: str
    started_at_ms: int
    planned_on: str

    def check_host(self, url: str) -> None:
        """Refuse a task on another machine than the one that has the store's file."""
        check_host(url, self.planned_on)


async def new_run(store: Store, id: str | None) -> WriteRun:
    """A run that starts now."""
    started_at_ms = await store.now_ms()
    return WriteRun(id or uuid7(started_at_ms, os.urandom(RANDOM_BYTES)), started_at_ms, this_host())


HASH_BYTES = 8
EXAMPLE_CHARS_MAX = 300
"""Of a sentence that is shown: it may quote a row that cannot be read, which is kept whole with the row."""
FIRSTS = {"jobs": "created", "dead": "replayed", "feed": "written"}
"""What a row is counted as that this run has put in, unless the store said it in other words."""


class Written(Struct, frozen=True, kw_only=True):
    """What became of the rows of a write.

    True whatever Spark had to repeat: what an attempt put in before it failed counts as put in by the run. Every row
    is counted once: all counts and those of `refused` add up to `rows`.
    """

    run: str
    what: str
    rows: int = 0
    created: int = 0
    """Jobs that are new."""
    updated: int = 0
    """Jobs that were waiting under the row's id, and were changed."""
    blocked: int = 0
    """Jobs that wait behind their active namesake."""
    duplicate: int = 0
    """Rows whose key was there before this run: written by an earlier one, so nothing was done."""
    replayed: int = 0
    """Dead letters that are jobs again."""
    not_found: int = 0
    """Rows whose dead letter was not there (any more)."""
    in_use: int = 0
    """Rows whose dead letter stays because its id waits, is blocked or runs."""
    written: int = 0
    """Items that were published or edited."""
    unchanged: int = 0
    """Items that were there before this run, as they are."""
    folded: int = 0
    """Rows equal to another row of this run, so that both are one."""
    refused: dict[str, int] = {}
    """Rows that the store will not have, by reason."""
    examples: dict[str, str] = {}
    """A sentence for each reason."""
    refused_folder: str | None = None
    """The folder of the refused rows; None without any, or without option `refusedDir`."""
    exact: bool = True
    """False beyond 20 million rows: then what this run has put in is at least so much, and folded at most."""
    started_at_ms: int = 0
    ended_at_ms: int = 0

    def __str__(self) -> str:
        return self.sentence()

    def sentence(self) -> str:
        """The counts for a person, with an example of each refusal."""
        parts = [f"{count:,} {name}" for name, count in self.counts().items() if count]
        text = f"of {self.rows:,} rows {', '.join(parts) if parts else 'none was written'}"
        text += "" if self.exact else " (at least, folded at most)"
        if not self.refused:
            return text
        refused = ", ".join(f"{reason} {count:,}" for reason, count in sorted(self.refused.items()))
        example = self.examples[max(self.refused, key=lambda reason: self.refused[reason])]
        return f"{text}, {sum(self.refused.values()):,} refused ({refused}); for example: {example}"

    def counts(self) -> dict[str, int]:
        """What was not refused."""
        names = ("created", "updated", "blocked", "duplicate", "replayed", "not_found", "in_use", "written")
        return {name: getattr(self, name) for name in (*names, "unchanged", "folded")}


@dataclass
class WriteTally:
    """The counts of one task, as they grow."""

    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """By the words of `Written`. Of what this run has put in, only what the store said to this very attempt."""
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    hashes: bytearray = field(default_factory=bytearray)
    """Eight bytes for each row that this run has put in, by whichever attempt: equal for equal rows."""
    ours: int = 0
    """How many these are, or would be."""
    refused_file: str | None = None
    """In which the refused rows are kept."""

    def refuse(self, reason: str, sentence: str) -> None:
        """Count a row that cannot be written."""
        self.refused[reason] += 1
        self.examples.setdefault(reason, cut(sentence, EXAMPLE_CHARS_MAX))

    def put_in(self, hashes: bytes) -> None:
        """Count rows that this run has put in."""
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
    """What the tasks of a run come to together: a row that several report as put in was put in once."""
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
    """As much of a report as says when its write began, whether it has ended or not."""

    started_at_ms: int


_decode_started = msgspec.json.Decoder(_StartedReport).decode


async def publish_report(store: Store, feed: FeedName, written: Written) -> None:
    """Publish the counts as an item of a feed, which is created if it is missing."""
    await retry(lambda: _publish(store, feed, written.run, _encode(written)))


async def first_start(store: Store, feed: FeedName, run: WriteRun) -> int:
    """When a write was first begun that may have been begun before, as a batch of a stream that is run again: what an
    attempt that failed has put in counts as put in by that batch."""
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
        if refused.reason != "feed_exists":  # somebody else was faster
            raise
