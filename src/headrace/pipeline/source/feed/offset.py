"""Keeps how far a stream has read the log of each feed, and finds what the log has lost since."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from headrace.model.errors import BadConfig
from headrace.model.feed import Changed, FeedCursor, FeedName
from headrace.model.results import FeedState
from headrace.pipeline.source.offsets import EARLIEST, GO_ON, LATEST, VERSION, OffsetLimit, read_offset
from headrace.stores.contract.store import Store

OLDEST = 0
"""The epoch of a cursor before the oldest kept change, which has none. Epochs begin with 1."""


class FeedSpan(Struct, frozen=True):
    """The changes of a feed after the cursor `after` up to the seq `upto`."""

    feed: FeedName
    after: FeedCursor
    upto: int

    @property
    def count(self) -> int:
        """The number of changes; a log has no gaps."""
        return self.upto - self.after.seq


class FeedOffset(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of a batch and the beginning of the next."""

    v: int = VERSION
    feeds: dict[str, str]
    """The cursor of each feed by `tenant/feed`; empty for an unread feed."""
    jumps: dict[str, str] = {}
    """Where this batch begins in an unread feed or after a loss. Kept, so that a repeated batch reads the same."""
    skipped: int = 0
    """Changes that were dropped unread, since the beginning."""
    lost: int = 0
    """Changes that were read and that the store no longer knows, since the beginning."""

    @staticmethod
    def parse(stored: Mapping[str, Any]) -> "FeedOffset":
        """An offset that Spark has kept; `BadConfig` when another source wrote it."""
        return read_offset(stored, FeedOffset)

    def to_json(self) -> dict[str, Any]:
        """What Spark is to keep."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return fields

    def spans(self, before: "FeedOffset") -> list[FeedSpan]:
        """The spans of this batch, if the last one ended with `before`."""
        found = []
        for name, end in self.feeds.items():
            begin = self.jumps.get(name, before.feeds.get(name, ""))
            if begin and end:
                found.append(FeedSpan(feed_named(name), FeedCursor.parse(begin), FeedCursor.parse(end).seq))
        return [span for span in found if span.count > 0]


def feed_named(name: str) -> FeedName:
    """The feed that an offset names."""
    tenant, _, feed = name.partition("/")
    return FeedName(feed, tenant)


async def first_cursors(
    store: Store, states: Mapping[str, FeedState], starting: OffsetLimit, fails_on_loss: bool
) -> dict[str, str]:
    """Where a stream begins in each feed: a cursor, or empty for the oldest kept change."""
    for name in starting.names:
        if name not in states:
            raise BadConfig(
                f"option startingOffsets names {name!r}, which is not one of the feeds to read;"
                f" known feeds: {', '.join(list(states)[:10]) or 'none'}{', …' if len(states) > 10 else ''}"
            )
    cursors = {}
    for name, state in states.items():
        at_ms = starting.instants_ms.get(name, starting.at_ms)
        if at_ms is not None:
            cursors[name] = await _at_instant(store, state, at_ms)
        else:
            seq = starting.seqs.get(name, LATEST if starting.end == "latest" else EARLIEST)
            cursors[name] = await _at_seq(store, name, state, seq, fails_on_loss)
    return cursors


async def _at_seq(store: Store, name: str, state: FeedState, seq: int, fails_on_loss: bool) -> str:
    """The cursor before the change `seq`, the first to read."""
    if seq == EARLIEST:
        return ""
    if seq == LATEST:
        return str(state.cursor)
    least, most = state.first_seq, state.cursor.seq + 1
    if not least <= seq <= most and fails_on_loss:
        raise BadConfig(
            f"option startingOffsets begins with seq {seq} of feed {name}, which keeps {least} to {most - 1}; give a"
            f" seq from {least} to {most}, earliest or latest, or take the nearest with failOnDataLoss=false"
        )
    if seq <= least:
        return ""
    cursor = await cursor_at(store, state, oldest_of(state), min(seq, most) - 1)
    return "" if cursor is None else str(cursor)


async def _at_instant(store: Store, state: FeedState, at_ms: int) -> str:
    """The cursor before the first change at or after an instant."""
    if state.changed_at_ms < at_ms:
        return str(state.cursor)
    before = ""
    async for birth, change in changes_behind(store, state, oldest_of(state)):
        if change.at_ms >= at_ms:
            return before
        before = f"{birth}-{change.epoch}-{change.seq}"
    return str(state.cursor)


async def cursor_at(store: Store, state: FeedState, after: FeedCursor, seq: int) -> FeedCursor | None:
    """The cursor of the change `seq`, which is behind `after` and not beyond the end that `state` tells; None when it
    was dropped meanwhile."""
    end = state.cursor
    if seq == end.seq:
        return end
    if seq == after.seq:
        return after
    # Epochs never fall within a log: if both ends have one epoch, so have all changes between them.
    if after.epoch == end.epoch:
        return FeedCursor(end.birth, end.epoch, seq)
    async for birth, change in changes_behind(store, state, after):
        if change.seq > seq or birth != end.birth:
            break
        if change.seq == seq or change.epoch == end.epoch:
            return FeedCursor(birth, change.epoch, seq)
    return None


def oldest_of(state: FeedState) -> FeedCursor:
    """The cursor before the oldest change that is kept."""
    return FeedCursor(state.cursor.birth, OLDEST, state.first_seq - 1)


async def changes_behind(store: Store, state: FeedState, after: FeedCursor) -> AsyncIterator[tuple[str, Changed]]:
    """The changes behind a cursor one by one, each with the birth of its feed; ends early where some were dropped."""
    page = await store.feeds.changes(state.feed, None if after.epoch == OLDEST else after)
    while page.status == "kept" and page.cursor is not None:
        for change in page.rows:
            yield page.cursor.birth, change
        if not page.more:
            break
        page = await store.feeds.changes(state.feed, page.cursor)


class FeedLoss(Struct, frozen=True):
    """Something is missing in the log of a feed that was read up to a cursor."""

    name: str
    kind: Literal["trimmed", "changed", "anew", "gone"]
    cursor: FeedCursor
    state: FeedState | None = None
    """None of a feed that is gone."""

    def sentence(self) -> str:
        """The loss as a sentence: expected, found, and what to do."""
        read = f"the stream has read feed {self.name} up to seq {self.cursor.seq:,}"
        if self.state is None:
            return f"{read}, and the feed no longer exists; use a new checkpoint, {GO_ON} without it"
        if self.kind == "trimmed":
            first = self.state.first_seq
            return (
                f"{read}, and retention has dropped what follows up to {first - 1:,}; let the feed keep more of its"
                f" changes (changes_keep_max, changes_keep_ms, changes_bytes_max), and use a new checkpoint, {GO_ON}"
                f" without the {first - 1 - self.cursor.seq:,} changes"
            )
        if self.kind == "anew":
            return (
                f"{read}, and the feed of this name is another one: it was created again, or this is another store; use"
                f" a new checkpoint, {GO_ON} with the remaining events"
            )
        return (
            f"{read}, and its log does not hold that change: the store has lost its tail; use a new checkpoint,"
            f" {GO_ON} with the remaining events"
        )


class ResumedFeed(Struct, frozen=True):
    """Where a stream continues after a loss, with the skipped and lost changes."""

    after: FeedCursor
    skipped: int = 0
    lost: int = 0


async def find_loss(
    store: Store, name: str, cursor: FeedCursor, state: FeedState | None, is_sure: bool
) -> FeedLoss | None:
    """The loss after a cursor, if any; unless `is_sure`, the change at the cursor is checked, too."""
    if state is None:
        return FeedLoss(name, "gone", cursor)
    end = state.cursor
    if end.birth != cursor.birth:
        return FeedLoss(name, "anew", cursor, state)
    if cursor.seq > end.seq or cursor.epoch > end.epoch:
        return FeedLoss(name, "changed", cursor, state)
    if cursor.seq < state.first_seq - 1:
        return FeedLoss(name, "trimmed", cursor, state)
    if is_sure and cursor.epoch == end.epoch:
        return None
    found = await store.feeds.changes(state.feed, cursor, limit=1)
    # Deleted or dropped since the state was read: the next poll will tell.
    return FeedLoss(name, "changed", cursor, state) if found.status == "gap" else None


async def resume_after(store: Store, loss: FeedLoss) -> ResumedFeed | None:
    """Where to continue; None for a deleted feed.

    A store that lost its tail has a higher epoch: the remaining changes of earlier epochs were read.
    """
    state, seq = loss.state, loss.cursor.seq
    if state is None:
        return None
    oldest = oldest_of(state)
    if loss.kind == "trimmed":
        return ResumedFeed(oldest, skipped=oldest.seq - seq)
    if loss.kind == "anew":
        return ResumedFeed(oldest)
    known = oldest
    async for birth, change in changes_behind(store, state, oldest):
        if change.epoch > loss.cursor.epoch:
            break
        known = FeedCursor(birth, change.epoch, change.seq)
    if known.epoch == OLDEST and known.seq > seq:
        return ResumedFeed(known, skipped=known.seq - seq)
    return ResumedFeed(known, lost=max(seq - known.seq, 0))
