"""Plans the batches of a stream over feeds without Spark: where each ends, and which changes it reads."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from headrace.model.clock import monotonic_ms
from headrace.model.feed import FeedCursor, FeedName
from headrace.model.results import FeedState
from headrace.pipeline.source.discovery import feed_states, find_feeds
from headrace.pipeline.source.feed.offset import (
    OLDEST,
    FeedLoss,
    FeedOffset,
    FeedSpan,
    cursor_at,
    feed_named,
    find_loss,
    first_cursors,
    oldest_of,
    resume_after,
)
from headrace.pipeline.source.offsets import OffsetLimit, raise_data_loss
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.stream_reader import FIND_EVERY_MS, Pause, TriggerDelay
from headrace.stores.catalog import all_feeds
from headrace.stores.contract.store import Store


class _Backlog(Struct, frozen=True):
    """The unread changes of a feed: after the cursor `after` up to the seq `upto`."""

    state: FeedState
    after: FeedCursor
    upto: int
    is_jump: bool
    """Whether the last batch did not end at `after`."""

    @property
    def count(self) -> int:
        return self.upto - self.after.seq


class FeedFollower:
    """Plans the batches of one stream, and remembers the states of the feeds."""

    def __init__(self, store: Store, options: SourceOptions, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._store = store
        self._options = options
        self._now_ms = now_ms
        self._feeds: list[FeedName] = []
        self._found_at_ms: int | None = None
        self._initial: FeedOffset | None = None
        self._last: FeedOffset | None = None
        self._targets: dict[str, FeedCursor] | None = None
        self._states: dict[str, FeedState] = {}
        """As of the last poll."""
        self._pause = Pause(now_ms)
        self._delay = TriggerDelay(options, now_ms)

    async def initial(self) -> FeedOffset:
        """Where a stream without a checkpoint begins; the same in every call, since Spark calls several times."""
        if self._initial is None:
            feeds = await find_feeds(self._store, self._options)
            states = {str(each.feed): each for each in await feed_states(self._store, feeds) if each is not None}
            starting = self._options.starting or OffsetLimit("earliest")
            cursors = await first_cursors(self._store, states, starting, self._options.fails_on_loss)
            self._initial = FeedOffset(feeds=cursors)
        return self._initial

    async def prepare_available_now(self) -> None:
        """Read up to the present ends of the logs and no further."""
        states = await feed_states(self._store, await self._find(now=True))
        self._targets = {str(each.feed): each.cursor for each in states if each is not None}

    async def latest(self, start: FeedOffset | None, changes_max: int | None) -> FeedOffset:
        """Where the batch that begins at `start` ends; `start` itself when there is nothing new.

        Raises `Refused` for a loss in a log, unless the options say to count it and continue.
        """
        if start is None:
            # Spark before 4.2 gives none.
            start = self._last or await self.initial()
        await self._pause.rest()
        states = await self._look(start)
        backlogs, skipped, lost = await self._backlogs(start, states)
        feeds = {name: text for name, text in start.feeds.items() if states.get(name) is not None}
        self._states = {name: state for name, state in states.items() if state is not None}
        found = [each.count for each in backlogs.values()]
        is_changed = (skipped, lost) != (0, 0) or feeds.keys() != start.feeds.keys()
        if self._targets is None and not is_changed and not self._delay.is_due(sum(found)):
            self._last = start
            self._pause.note(True)
            return start
        jumps = {}
        counts = fair_shares(found, changes_max)
        for (name, each), count in zip(backlogs.items(), counts, strict=True):
            reached = await cursor_at(self._store, each.state, each.after, each.after.seq + count)
            # A feed of which nothing is read is not noted: the next poll finds the same, or what is left.
            if reached is None or (count == 0 and not start.feeds.get(name)):
                continue
            feeds[name] = "" if reached.epoch == OLDEST else str(reached)
            if each.is_jump and count:
                jumps[name] = str(each.after)
        if feeds == start.feeds:
            self._last = start
        else:
            self._last = FeedOffset(feeds=feeds, jumps=jumps, skipped=start.skipped + skipped, lost=start.lost + lost)
        self._pause.note(self._last is start)
        return self._last

    def report(self) -> dict[str, Any] | None:
        """How far the logs are, and by how many changes the last batch stays behind; None before the first."""
        if self._last is None:
            return None
        seqs = {name: FeedCursor.parse(text).seq for name, text in self._last.feeds.items() if text}
        lags = (state.cursor.seq - max(seqs.get(name, 0), state.first_seq - 1) for name, state in self._states.items())
        return {
            "v": self._last.v,
            "feeds": {name: str(state.cursor) for name, state in self._states.items()},
            "lag": sum(max(lag, 0) for lag in lags),
        }

    async def plan(self, start: FeedOffset, end: FeedOffset) -> list[FeedSpan]:
        """The spans of the batch between two offsets; the read checks whether the logs still keep them."""
        return end.spans(start)

    async def _find(self, *, now: bool = False) -> list[FeedName]:
        """The feeds that the options select, looked up at most every second, unless it must be `now`."""
        now_ms = self._now_ms()
        if now or self._found_at_ms is None or now_ms >= self._found_at_ms + FIND_EVERY_MS:
            names = self._options.names
            feeds = await all_feeds(self._store, self._options.tenant)
            self._feeds = [feed for feed in feeds if not names or feed.name in names]
            self._found_at_ms = now_ms
        return self._feeds

    async def _look(self, start: FeedOffset) -> dict[str, FeedState | None]:
        """The states of the selected feeds, and of those that were read up to `start`."""
        feeds = {str(feed): feed for feed in await self._find()}
        for name in start.feeds:
            feed = feed_named(name)
            # A feed that the options no longer select is not read.
            if feed.tenant == self._options.tenant and (not self._options.names or feed.name in self._options.names):
                feeds[name] = feed
        if self._last is None and not {feed.name for feed in feeds.values()}.issuperset(self._options.names):
            await find_feeds(self._store, self._options)  # refuses an unknown name
        return dict(zip(feeds, await feed_states(self._store, list(feeds.values())), strict=True))

    async def _backlogs(
        self, start: FeedOffset, states: Mapping[str, FeedState | None]
    ) -> tuple[dict[str, _Backlog], int, int]:
        """The unread changes of each feed, and the numbers of skipped and lost changes."""
        backlogs: dict[str, _Backlog] = {}
        losses: list[FeedLoss] = []
        for name, state in states.items():
            text = start.feeds.get(name)
            cursor = FeedCursor.parse(text) if text else None
            missing = await self._missing(name, cursor, state)
            if missing is not None:
                losses.append(missing)
            elif state is not None:
                after = cursor or oldest_of(state)
                backlogs[name] = _Backlog(state, after, self._upto(name, state, after), cursor is None)
        if self._options.fails_on_loss:
            raise_data_loss([each.sentence() for each in losses], "feeds")
        skipped = lost = 0
        for each in losses:
            resumed = await resume_after(self._store, each)
            if resumed is not None and each.state is not None:
                upto = self._upto(each.name, each.state, resumed.after)
                backlogs[each.name] = _Backlog(each.state, resumed.after, upto, True)
                skipped, lost = skipped + resumed.skipped, lost + resumed.lost
        return backlogs, skipped, lost

    async def _missing(self, name: str, cursor: FeedCursor | None, state: FeedState | None) -> FeedLoss | None:
        if cursor is None:
            return None
        # The cursor of an earlier run is checked once, that of this run when the epoch of the log changes.
        return await find_loss(self._store, name, cursor, state, is_sure=self._last is not None)

    def _upto(self, name: str, state: FeedState, after: FeedCursor) -> int:
        """The last change to read: the end, or the end when the query began."""
        end = state.cursor
        if self._targets is None:
            return end.seq
        target = self._targets.get(name)
        if target is None or target.birth != end.birth:
            return after.seq
        return max(min(target.seq, end.seq), after.seq)


def fair_shares(counts: Sequence[int], limit: int | None) -> list[int]:
    """Equal shares of `limit`, which add up to it if there are enough changes; the rest of a feed with few changes goes
    to the others."""
    counts = list(counts)
    if limit is None or sum(counts) <= limit:
        return counts
    remaining = limit
    ordered = sorted(range(len(counts)), key=lambda each: counts[each])
    for rank, each in enumerate(ordered):
        # Rounded up, so that a feed with little does not wait for those with much.
        counts[each] = min(counts[each], -(-remaining // (len(counts) - rank)))
        remaining -= counts[each]
    return counts
