"""Admission: a limited batch takes the first events in the order of time, exactly as many as it may."""

from bisect import bisect_right
from collections.abc import Coroutine, Sequence
from itertools import accumulate
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.event import Span
from headrace.model.names import Queue, Shard
from headrace.pipeline.source.journal.follower import admit

SECOND, HOUR = 1_000, 3_600_000


def done(call: Coroutine[Any, Any, Sequence[Span]]) -> Sequence[Span]:
    """What a coroutine answers that waits for nothing: a loop for each would take most of the time."""
    try:
        call.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


class Journals:
    """Journals of events that are nothing but instants, and the number of calls."""

    def __init__(self, instants: Sequence[Sequence[int]]) -> None:
        self.shards = Queue("mail", shards=max(len(instants), 1)).all_shards()[: len(instants)]
        self._instants = dict(zip(self.shards, instants, strict=True))
        self.calls = 0

    def at_ms(self, shard: Shard, seq: int) -> int:
        return self._instants[shard][seq - 1]

    def rest(self, afters: Sequence[int]) -> list[Span]:
        return [
            Span(shard, after, len(self._instants[shard])) for shard, after in zip(self.shards, afters, strict=True)
        ]

    async def reached(self, spans: Sequence[Span], at_ms: int) -> list[int]:
        self.calls += 1
        return [min(max(bisect_right(self._instants[span.shard], at_ms), span.after), span.upto) for span in spans]

    def admit(self, afters: Sequence[int], events_max: int) -> list[int]:
        """How far a batch goes that begins there."""
        events = sorted(at_ms for instants in self._instants.values() for at_ms in instants)
        spans = self.rest(afters)
        taken = done(admit(spans, events_max, events[0], events[-1], self.reached))
        assert [(span.shard, span.after) for span in taken] == [(span.shard, span.after) for span in spans]
        return [span.upto for span in taken]


instants = st.lists(st.integers(0, 50) | st.integers(0, 2**41), max_size=30).map(sorted)
journals = st.lists(instants, min_size=1, max_size=6).filter(any)


@given(journals, st.integers(1, 40))
def test_each_batch_is_exactly_as_large_as_it_may_be_and_the_next_events_in_time(
    instants: list[list[int]], events_max: int
) -> None:
    journals = Journals(instants)
    afters, total = [0] * len(instants), sum(map(len, instants))
    merged = sorted(at_ms for each in instants for at_ms in each)

    while sum(afters) < total:
        uptos = journals.admit(afters, events_max)
        taken = sorted(
            at_ms for each, after, upto in zip(instants, afters, uptos, strict=True) for at_ms in each[after:upto]
        )

        assert taken == merged[sum(afters) : sum(afters) + events_max]
        afters = uptos


def test_shards_of_very_different_pace_stay_together_in_time() -> None:
    journals = Journals([[n * 10 for n in range(10_000)], [n * 3_600 for n in range(10_000)]])

    uptos, afters = [], [0, 0]
    while sum(afters) < 20_000:
        afters = journals.admit(afters, 1_000)
        uptos.append(afters)

    ends = [
        [journals.at_ms(shard, max(seq, 1)) for shard, seq in zip(journals.shards, at, strict=True)] for at in uptos
    ]
    assert len(uptos) == 20
    assert all(fast >= 99_990 or fast - slow <= 3_600 for fast, slow in ends)
    assert ends[-1] == [99_990, 35_996_400]


def test_a_search_in_steady_journals_asks_fewer_times_than_halving_would() -> None:
    chance = Random(7)
    steady = [list(accumulate((chance.randrange(100) for _ in range(10_000)), initial=0)) for _ in range(4)]
    journals = Journals(steady)

    for events_max in (500, 4_000, 13_000, 20_000):
        journals.admit([0, 0, 0, 0], events_max)

    assert journals.calls <= 4 * 10


def test_a_search_in_uneven_journals_asks_at_most_twice_as_often_as_halving_would() -> None:
    burst = list(accumulate([1] * 1_000, initial=300 * HOUR))
    journals = Journals([[0, *burst], [1, *burst], [2, 400 * HOUR]])

    journals.admit([0, 0, 0], 1_990)

    assert journals.calls <= 2 * (400 * HOUR).bit_length()


def test_one_journal_alone_is_cut_without_asking() -> None:
    journals = Journals([[n * SECOND for n in range(100)], []])

    assert journals.admit([10, 0], 7) == [17, 0]
    assert journals.calls == 0


def test_events_of_one_instant_are_cut_where_the_limit_is_and_the_first_shards_come_first() -> None:
    journals = Journals([[5, 9, 9, 9], [9, 9, 9], [9, 9, 10]])

    first = journals.admit([0, 0, 0], 5)
    second = journals.admit(first, 5)

    assert first == [4, 1, 0]
    assert second == [4, 3, 3]
