"""Plans the batches of a stream over journals without Spark: where each ends, and which events it reads."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from headrace.model.clock import SystemClock, monotonic_ms
from headrace.model.event import Bounds, Span
from headrace.pipeline.source.journal.offset import Loss, Mark, Offset, ResumedJournal
from headrace.pipeline.source.journal.ranges import check_named, find_seqs, reached
from headrace.pipeline.source.journal.shards import ExpandedOffset, FollowedShards, JournalIdentity, compact, expand
from headrace.pipeline.source.offsets import OffsetLimit, raise_data_loss
from headrace.pipeline.source.options import SourceOptions
from headrace.pipeline.source.stream_reader import Pause, TriggerDelay
from headrace.stores.contract.store import Store

Reached = Callable[[Sequence[Span], int], Awaitable[Sequence[int]]]
"""The last seq of each span at an instant: `Journal.reached` for any number of spans."""


class _Batch(Struct):
    """A batch that is being planned: where each shard begins, and the losses so far."""

    begins: dict[str, int]
    jumps: dict[str, int]
    skipped: int
    lost: int

    def jump(self, name: str, resumed: ResumedJournal) -> None:
        self.begins[name] = self.jumps[name] = resumed.after
        self.skipped += resumed.skipped
        self.lost += resumed.lost


class JournalFollower:
    """Plans the batches of one stream, and remembers the bounds of the journals."""

    def __init__(self, store: Store, options: SourceOptions, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._journal = store.journal
        self._options = options
        self._now_ms = now_ms
        self._shards = FollowedShards(store, options, now_ms)
        self._identity = JournalIdentity(self._shards)
        self._initial: Offset | None = None
        self._last: Offset | None = None
        self._full = ExpandedOffset(Offset(shards={}))
        """The last offset with all shards."""
        self._targets: dict[str, Bounds] | None = None
        self._pause = Pause(now_ms)
        self._delay = TriggerDelay(options, now_ms)

    async def initial(self) -> Offset:
        """Where a stream without a checkpoint begins; the same in every call, since Spark calls several times."""
        if self._initial is None:
            await self._shards.require(None)
            await self._shards.find()
            shards = list(self._shards.shards.values())
            limit = self._options.starting or OffsetLimit("earliest")
            check_named("startingOffsets", limit, shards)
            bounds = await self._shards.bounds()
            kept = {shard: bounds[str(shard)] for shard in shards}
            begins = await find_seqs(self._journal, "startingOffsets", self._options, limit, kept)
            seqs = {str(shard): begin - 1 for shard, begin in zip(shards, begins, strict=True)}
            self._initial = Offset(shards=await self._shards.marks(seqs))
        return self._initial

    async def prepare_available_now(self) -> None:
        """Read up to the present ends of the journals and no further."""
        await self._shards.find(now=True)
        self._targets = await self._shards.bounds()

    async def latest(self, start: Offset | None, events_max: int | None) -> Offset:
        """Where the batch that begins at `start` ends; `start` itself when there is nothing new.

        Raises `Refused` for a loss in a journal, unless the options say to count it and continue.
        """
        if start is None:
            # Spark before 4.2 gives none.
            start = self._last or await self.initial()
        await self._pause.rest()
        if self._last is None:
            await self._shards.require(start)
        if start != self._last:
            await self._shards.find()
            self._full, self._last = await expand(self._journal, self._shards, self._identity, start), None
        full, comparison = self._full.offset, self._full.comparison
        bounds, losses = await self._look(full, is_first=start == self._initial)
        if self._options.fails_on_loss:
            sentences = comparison.sentences() if comparison else []
            raise_data_loss([each.sentence() for each in losses] + sentences, "shards")
        batch = await self._begin(full, bounds, losses)
        spans = await self._unread(batch, bounds)
        self._identity.remember(bounds)
        is_whole = not losses and (full.skipped, full.lost) == (start.skipped, start.lost)
        if self._targets is None and is_whole and not self._delay.is_due(sum(span.count for span in spans.values())):
            self._last = start
        else:
            self._last = await self._end(start, full, batch, await self._admit(full, spans, bounds, events_max), bounds)
        self._pause.note(self._last is start)
        return self._last

    async def _look(self, full: Offset, *, is_first: bool) -> tuple[dict[str, Bounds], list[Loss]]:
        bounds, losses = await self._identity.look(full, is_first=is_first)
        known = {each.name: each for each in [*losses, *self._full.losses]}
        return bounds, list(known.values())

    def report(self) -> dict[str, Any] | None:
        """How far the journals are, and by how many events the last batch stays behind; None before the first."""
        if self._last is None:
            return None
        marks, bounds = self._full.offset.shards, self._identity.bounds
        lags = {
            name: each.last_seq - max(marks[name].seq if name in marks else 0, each.first_seq - 1)
            for name, each in bounds.items()
        }
        behind = {name: [bounds[name].epoch, bounds[name].last_seq] for name, lag in lags.items() if lag > 0}
        return {"v": self._last.v, "shards": behind, "lag": sum(lags[name] for name in behind)}

    async def plan(self, start: Offset, end: Offset) -> list[Span]:
        """The spans of the batch between two offsets; one of an earlier run is checked for losses first."""
        if end == self._last:
            return end.spans(start, self._shards.shards)
        bounds, losses = await self._identity.look(end, is_first=False)
        spans = {str(span.shard): span for span in end.spans(start, self._shards.shards)}
        names = {each.name for each in losses}
        losses += [
            Loss(name, "trimmed", Mark(0, span.after, "", 0), bounds[name])
            for name, span in spans.items()
            if span.after + 1 < bounds[name].first_seq and name not in names
        ]
        if self._options.fails_on_loss:
            # Losses outside this batch are refused by the next one.
            raise_data_loss([each.sentence() for each in losses if each.kind == "gone" or each.name in spans], "shards")
        uptos = {each.name: (await self._identity.resume(each)).after for each in losses if each.is_other}
        kept = [
            Span(span.shard, max(span.after, bounds[name].first_seq - 1), min(span.upto, uptos.get(name, span.upto)))
            for name, span in spans.items()
        ]
        return [span for span in kept if span.count > 0]

    async def _begin(self, start: Offset, bounds: Mapping[str, Bounds], losses: list[Loss]) -> _Batch:
        batch = _Batch({}, {}, start.skipped, start.lost)
        is_first = start == self._initial
        for name, each in bounds.items():
            mark = start.shards.get(name)
            if mark is None and self._targets is not None and name not in self._targets:
                continue
            batch.begins[name] = each.first_seq - 1 if mark is None else max(mark.seq, 0)
            # Only this records where a first batch began: retention may move the beginning.
            if mark is None or is_first:
                batch.begins[name] = max(batch.begins[name], each.first_seq - 1)
                batch.jumps[name] = batch.begins[name]
        for found in losses:
            if found.name in bounds:
                batch.jump(found.name, await self._identity.resume(found))
        return batch

    async def _unread(self, batch: _Batch, bounds: Mapping[str, Bounds]) -> dict[str, Span]:
        """All unread events, by shard."""
        shards = self._shards.shards
        heads = {name: await self._head(name, bounds[name]) for name in batch.begins}
        return {name: Span(shards[name], begin, max(heads[name], begin)) for name, begin in batch.begins.items()}

    async def _admit(
        self, start: Offset, spans: dict[str, Span], bounds: Mapping[str, Bounds], events_max: int | None
    ) -> list[Span]:
        """The spans that the batch reads within its limit."""
        fresh = {name: span for name, span in spans.items() if span.count}
        if events_max is not None and fresh:
            since_ms = min(_since_ms(start.shards.get(name), span, bounds[name]) for name, span in fresh.items())
            until_ms = max(bounds[name].last_at_ms or 0 for name in fresh)

            async def ask(windows: Any, at_ms: int) -> Any:
                return await reached(self._journal, windows, at_ms)

            admitted = await admit(list(fresh.values()), events_max, since_ms, until_ms, ask)
            spans |= dict(zip(fresh, admitted, strict=True))
        return list(spans.values())

    async def _head(self, name: str, bounds: Bounds) -> int:
        if self._targets is None:
            return bounds.last_seq
        target = self._targets.get(name)
        if target is None:
            return 0
        # Events of a later epoch came after the targets were set: the store has lost its tail since.
        kept = bounds.last_seq if bounds.epoch <= target.epoch else await self._shards.cut(name, bounds, target.epoch)
        return min(kept, target.last_seq)

    async def _end(
        self, start: Offset, full: Offset, batch: _Batch, spans: list[Span], bounds: Mapping[str, Bounds]
    ) -> Offset:
        seqs = {name: span.upto for name, span in zip(batch.begins, spans, strict=True)}
        is_new = any(span.count for span in spans) or full.shards.keys() != seqs.keys()
        if not is_new and (batch.skipped, batch.lost) == (start.skipped, start.lost):
            return start
        moved = {name: seq for name, seq in seqs.items() if name not in full.shards or full.shards[name].seq != seq}
        moved |= {name: seqs[name] for name in batch.jumps}
        marks = await self._shards.marks(moved)
        self._identity.trust(marks)
        end = Offset(
            shards={name: marks.get(name) or full.shards[name] for name in seqs},
            jumps=batch.jumps,
            gone=tuple(sorted(full.shards.keys() - seqs.keys())),
            skipped=batch.skipped,
            lost=batch.lost,
        )
        self._full = ExpandedOffset(end)
        # The first batch lists every shard: only this records where it began.
        is_first = start == self._initial
        return end if is_first else compact(end, start, batch.begins, bounds, self._options, SystemClock().now_ms())


def _since_ms(mark: Mark | None, span: Span, bounds: Bounds) -> int:
    """A lower bound of the times in a span."""
    return mark.at_ms if mark is not None and mark.digest and mark.seq == span.after else bounds.first_at_ms or 0


async def admit(
    spans: Sequence[Span], events_max: int, since_ms: int, until_ms: int, reached: Reached
) -> Sequence[Span]:
    """The spans cut to the first `events_max` of their events by time; unchanged if they hold no more.

    All their events lie between `since_ms` and `until_ms`. The batch ends at one instant in all shards: if some ran
    ahead, a watermark would drop events of the others. Within that instant, the first shards come first.
    """
    if sum(span.count for span in spans) <= events_max:
        return spans
    search = _Search(spans, events_max, since_ms, until_ms)
    while (at_ms := search.instant()) is not None:
        windows = search.windows()
        search.learn(at_ms, await reached(windows, at_ms))
    return search.found()


class _Search:
    """Searches for the instant at which the limit is reached.

    In each shard, events up to `lows` are admitted and none after `highs`; those between happened after `low_ms` and
    not after `high_ms`."""

    def __init__(self, spans: Sequence[Span], events_max: int, since_ms: int, until_ms: int) -> None:
        self._spans = spans
        self._lows = [span.after for span in spans]
        self._highs = [span.upto for span in spans]
        self._low_ms, self._high_ms = since_ms - 1, until_ms
        self._remaining = events_max
        """The number of events that may still be admitted."""
        self._between = sum(span.count for span in spans)
        self._is_slow = False

    def windows(self) -> list[Span]:
        """The undecided span of each shard that has one."""
        return [Span(self._spans[shard].shard, self._lows[shard], self._highs[shard]) for shard in self._open()]

    def _open(self) -> list[int]:
        return [shard for shard in range(len(self._spans)) if self._lows[shard] < self._highs[shard]]

    def instant(self) -> int | None:
        """The next instant to probe; None when the search is over."""
        width_ms = self._high_ms - self._low_ms
        if width_ms <= 1 or self._remaining == 0 or len(self._open()) <= 1:
            return None
        # Most journals grow steadily, so a guess in proportion is close; where it is not, halving is sure.
        step_ms = width_ms // 2 if self._is_slow else width_ms * (2 * self._remaining + 1) // (2 * self._between)
        return self._low_ms + min(max(step_ms, 1), width_ms - 1)

    def learn(self, at_ms: int, seqs: Sequence[int]) -> None:
        """Narrow the search by the last seq of each window at an instant."""
        width_ms = self._high_ms - self._low_ms
        shards = self._open()
        count = sum(seq - self._lows[shard] for shard, seq in zip(shards, seqs, strict=True))
        if count > self._remaining:
            self._high_ms, self._between, changed = at_ms, count, self._highs
        else:
            self._low_ms, self._between, changed = at_ms, self._between - count, self._lows
            self._remaining -= count
        for shard, seq in zip(shards, seqs, strict=True):
            changed[shard] = seq
        self._is_slow = not self._is_slow and 2 * (self._high_ms - self._low_ms) > width_ms

    def found(self) -> list[Span]:
        """The spans cut to the admitted events; of the undecided ones, those of the first shards."""
        admitted = []
        for span, low, high in zip(self._spans, self._lows, self._highs, strict=True):
            more = min(high - low, self._remaining)
            self._remaining -= more
            admitted.append(Span(span.shard, span.after, low + more))
        return admitted
