"""Promises of the plan: equal pieces, nothing twice, nothing left out."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headrace.model.event import Bounds, Span
from headrace.model.names import Queue, Shard
from headrace.pipeline.source.partitioning import span_of, split

QUEUE = Queue("q", shards=256)


def span(shard: int, after: int, upto: int) -> Span:
    return Span(Shard(QUEUE, shard), after, upto)


def test_a_span_holds_what_the_bounds_say() -> None:
    assert span_of(Shard(QUEUE, 3), Bounds(1, 11, 30, 5, 6, 99)) == span(3, 10, 30)
    assert span_of(Shard(QUEUE, 3), Bounds(1, 31, 30, None, None, 0)).count == 0


def test_many_small_shards_share_a_piece() -> None:
    pieces = split([span(shard, 0, 2) for shard in range(6)], target=4)

    assert pieces == [
        (span(0, 0, 2), span(1, 0, 2)),
        (span(2, 0, 2), span(3, 0, 2)),
        (span(4, 0, 2), span(5, 0, 2)),
    ]


def test_a_large_shard_is_cut_by_seq() -> None:
    assert split([span(0, 100, 110)], target=4) == [(span(0, 100, 103),), (span(0, 103, 106),), (span(0, 106, 110),)]


def test_small_and_large_are_mixed_to_equal_counts() -> None:
    pieces = split([span(0, 0, 1), span(1, 5, 5), span(2, 0, 7), span(3, 20, 24)], target=6)

    assert pieces == [(span(0, 0, 1), span(2, 0, 5)), (span(2, 5, 7), span(3, 20, 24))]


def test_nothing_to_read_is_no_piece() -> None:
    assert split([]) == []
    assert split([span(0, 7, 7)], partitions_min=5) == []


def test_fewer_events_than_pieces_asked_for_are_a_piece_each() -> None:
    assert split([span(0, 0, 2)], partitions_min=5) == [(span(0, 0, 1),), (span(0, 1, 2),)]


def test_a_thousand_small_shards_are_one_piece() -> None:
    spans = [Span(Shard(Queue(f"q{number}")), 0, 20) for number in range(1_000)]

    assert split(spans) == [tuple(spans)]


@given(
    counts=some.lists(some.integers(0, 50), max_size=20),
    partitions_min=some.integers(1, 12),
    target=some.integers(1, 60),
)
def test_pieces_are_equal_and_together_are_what_was_given(counts: list[int], partitions_min: int, target: int) -> None:
    spans = [span(shard, 10 * shard, 10 * shard + count) for shard, count in enumerate(counts)]

    pieces = split(spans, partitions_min, target)

    sizes = [sum(part.count for part in piece) for piece in pieces]
    seqs = [(part.shard, seq) for piece in pieces for part in piece for seq in range(part.after, part.upto)]
    assert seqs == [(each.shard, seq) for each in spans for seq in range(each.after, each.upto)]
    assert sizes == [] or max(sizes) - min(sizes) <= 1
    assert max(sizes, default=0) <= target
    assert len(pieces) == min(max(partitions_min, -(-sum(counts) // target)), sum(counts))
    assert all(part.count > 0 for piece in pieces for part in piece)


@pytest.mark.parametrize("partitions_min", [1, 2, 3])
def test_the_same_bounds_give_the_same_pieces(partitions_min: int) -> None:
    spans = [span(0, 0, 5), span(1, 0, 9)]

    assert split(spans, partitions_min, 4) == split(spans, partitions_min, 4)
