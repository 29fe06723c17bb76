"""How much of many journals a limited batch takes: its first events in the order of time, over all shards alike."""

from collections.abc import Awaitable, Callable, Sequence

from headrace.model.event import Span

Reached = Callable[[Sequence[Span], int], Awaitable[Sequence[int]]]
"""How far each span had got at an instant: `Journal.reached`, for any number of spans."""


async def admit(
    spans: Sequence[Span], events_max: int, since_ms: int, until_ms: int, reached: Reached
) -> Sequence[Span]:
    """The spans cut to the first `events_max` of their events in the order of time; as they are when they hold no more.

    No event of theirs is older than `since_ms` or younger than `until_ms`. The batch ends at one instant in all
    shards, because shards that run ahead of others would make a watermark drop what the others still have. Of the
    instant at which the limit is reached, the first shards come first.
    """
    if sum(span.count for span in spans) <= events_max:
        return spans
    search = _Search(spans, events_max, since_ms, until_ms)
    while (at_ms := search.instant()) is not None:
        windows = search.windows()
        search.learn(at_ms, await reached(windows, at_ms))
    return search.found()


class _Search:
    """Looks for the instant at which the limit is reached.

    In each shard, everything up to `lows` is admitted and nothing after `highs` is; what lies between happened after
    `low_ms` and not after `high_ms`.
    """

    def __init__(self, spans: Sequence[Span], events_max: int, since_ms: int, until_ms: int) -> None:
        self._spans = spans
        self._lows = [span.after for span in spans]
        self._highs = [span.upto for span in spans]
        self._low_ms, self._high_ms = since_ms - 1, until_ms
        self._remaining = events_max
        """How many more may be admitted."""
        self._between = sum(span.count for span in spans)
        self._is_slow = False

    def windows(self) -> list[Span]:
        """The undecided part of each shard that has one."""
        return [Span(self._spans[shard].shard, self._lows[shard], self._highs[shard]) for shard in self._open()]

    def _open(self) -> list[int]:
        return [shard for shard in range(len(self._spans)) if self._lows[shard] < self._highs[shard]]

    def instant(self) -> int | None:
        """The instant to ask about next; None when the answer is known."""
        width_ms = self._high_ms - self._low_ms
        if width_ms <= 1 or self._remaining == 0 or len(self._open()) <= 1:
            return None
        # Most journals grow steadily, so a guess in proportion is close; where it is not, halving is sure.
        step_ms = width_ms // 2 if self._is_slow else width_ms * (2 * self._remaining + 1) // (2 * self._between)
        return self._low_ms + min(max(step_ms, 1), width_ms - 1)

    def learn(self, at_ms: int, seqs: Sequence[int]) -> None:
        """Take in how far each of the windows had got at an instant."""
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
        """The spans cut to what is admitted: of the undecided rest, the first shards' events first."""
        admitted = []
        for span, low, high in zip(self._spans, self._lows, self._highs, strict=True):
            more = min(high - low, self._remaining)
            self._remaining -= more
            admitted.append(Span(span.shard, span.after, low + more))
        return admitted
