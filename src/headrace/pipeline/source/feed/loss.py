"""What a stream finds missing in the log of a feed that it has read before: named, and gone on from."""

from typing import Literal

from msgspec import Struct

from headrace.model.feed import FeedCursor
from headrace.model.results import FeedState
from headrace.pipeline.source.feed.offset import OLDEST
from headrace.pipeline.source.feed.places import changes_behind, oldest_of
from headrace.pipeline.source.lacking import GO_ON
from headrace.stores.contract.store import Store


class FeedLoss(Struct, frozen=True):
    """Something is missing in the log of a feed that was read up to a cursor."""

    name: str
    kind: Literal["trimmed", "changed", "anew", "gone"]
    cursor: FeedCursor
    state: FeedState | None = None
    """None of a feed that is gone."""

    def sentence(self) -> str:
        """What was wanted, what was found, what to do."""
        read = f"the stream has read feed {self.name} up to seq {self.cursor.seq:,}"
        if self.state is None:
            return f"{read}, and there is no such feed any more; use a new checkpoint, {GO_ON} without it"
        if self.kind == "trimmed":
            first = self.state.first_seq
            return (
                f"{read}, and retention has dropped what follows up to {first - 1:,}; let the feed keep more of its"
                f" changes (changes_keep_max, changes_keep_ms, changes_bytes_max), and use a new checkpoint, {GO_ON}"
                f" without the {first - 1 - self.cursor.seq:,} changes"
            )
        if self.kind == "anew":
            return (
                f"{read}, and the feed of this name is another one: it was made anew, or this is another store; use a"
                f" new checkpoint, {GO_ON} from what is there"
            )
        return (
            f"{read}, and its log does not hold that change: the store has lost its tail; use a new checkpoint,"
            f" {GO_ON} from what is there"
        )


class ResumedFeed(Struct, frozen=True):
    """Where a stream goes on after a loss, and what that costs."""

    after: FeedCursor
    skipped: int = 0
    lost: int = 0


async def find(store: Store, name: str, cursor: FeedCursor, state: FeedState | None, is_sure: bool) -> FeedLoss | None:
    """What is missing behind a cursor, if anything; unless `is_sure`, the change at the cursor is looked at too."""
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
    # Gone or dropped since the state was asked for: the next look will say which.
    return FeedLoss(name, "changed", cursor, state) if found.status == "gap" else None


async def resume(store: Store, loss: FeedLoss) -> ResumedFeed | None:
    """Where to go on; None when there is nothing to go on with.

    A store that has lost its tail says so with a higher epoch: what it still has from before was read.
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
