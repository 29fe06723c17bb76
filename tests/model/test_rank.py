"""Ranks: there is room between any two, and ranks at the ends stay short."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.limits import RANK_CHARS_MAX, RERANK_MAX
from headrace.model.rank import FIRST_CHARS, NEXT_CHARS, SIGNS, between, spread

ZERO = SIGNS[0]


def numbers(level: int) -> st.SearchStrategy[str]:
    """The numbers of one level, written; mostly those at the edges, where there is no room."""
    width = NEXT_CHARS if level else FIRST_CHARS
    values = st.one_of(st.integers(0, 3), st.integers(64**width - 4, 64**width - 1), st.integers(0, 64**width - 1))
    return values.map(lambda number: written(number, width))


def written(number: int, width: int) -> str:
    """A number in signs, as many as its level has."""
    return "".join(SIGNS[number >> 6 * place & 63] for place in reversed(range(width)))


def is_rank(rank: str) -> bool:
    """Whether this is a row of whole numbers whose last one is not zero."""
    last = rank[-NEXT_CHARS:] if len(rank) > FIRST_CHARS else rank
    is_whole = len(rank) >= FIRST_CHARS and (len(rank) - FIRST_CHARS) % NEXT_CHARS == 0
    return is_whole and set(rank) <= set(SIGNS) and last.strip(ZERO) != ""


@st.composite
def ranks(draw: st.DrawFn) -> str:
    """Any rank, likely to share its beginning with another."""
    return "".join(draw(numbers(level)) for level in range(draw(st.integers(1, 4))))


ranks_that_may_stand = ranks().filter(is_rank)
bounds = st.one_of(st.none(), ranks_that_may_stand)


def test_signs_sort_like_the_numbers_they_write() -> None:
    """By code point, as every store compares."""
    assert list(SIGNS) == sorted(SIGNS)
    assert len(set(SIGNS)) == 64
    assert SIGNS.isascii()


@given(bounds, bounds)
def test_there_is_a_rank_between_any_two(low: str | None, high: str | None) -> None:
    """Also below the lowest and above the highest; it can stand there itself, so there is room for more."""
    if low is not None and high is not None:
        low, high = min(low, high), max(low, high)
        if low == high:
            high = None

    rank = between(low, high)

    assert is_rank(rank)
    assert low is None or low < rank
    assert high is None or rank < high
    assert len(rank) <= max(len(low or ""), len(high or ""), FIRST_CHARS) + 2 * NEXT_CHARS


@given(bounds, bounds, st.integers(1, 40))
def test_many_ranks_fit_between_any_two_in_order(low: str | None, high: str | None, count: int) -> None:
    if low is not None and high is not None:
        low, high = min(low, high), max(low, high)
        if low == high:
            high = None

    found = spread(low, high, count)

    assert len(found) == count
    assert all(map(is_rank, found))
    assert found == sorted(set(found))
    assert low is None or low < found[0]
    assert high is None or found[-1] < high


def test_many_ranks_are_spread_evenly_with_room_between_them() -> None:
    """Redistributed ranks take many more items before the next redistribution."""
    found = spread(None, None, 2 * RERANK_MAX + 1)

    halved = [between(low, high) for low, high in pairwise(found)]

    assert {len(rank) for rank in (*found, *halved)} == {FIRST_CHARS}


@given(st.lists(st.tuples(st.integers(0, 10**6), st.booleans()), max_size=60))
def test_any_row_of_insertions_keeps_its_order(places: list[tuple[int, bool]]) -> None:
    """Each goes before or after an existing one."""
    order: list[str] = [between(None, None)]
    for place, is_after in places:
        at = place % len(order) + is_after
        rank = between(order[at - 1] if at else None, order[at] if at < len(order) else None)
        order.insert(at, rank)

    assert order == sorted(set(order))


@pytest.mark.parametrize(
    ("spot", "chars_max"),
    [("last", 8), ("first", 8), ("before the last", 12), ("behind the first", 12)],
)
def test_items_put_one_after_the_other_at_the_same_position_have_short_ranks(spot: str, chars_max: int) -> None:
    """Twenty thousand of them: the room is not used up by halves."""
    first, last = spread(None, None, 2)
    low = {"last": last, "first": None}.get(spot, first)
    high = {"last": None, "first": first}.get(spot, last)

    longest = 0
    for _ in range(20_000):
        rank = between(low, high)
        assert low is None or low < rank
        assert high is None or rank < high
        longest = max(longest, len(rank))
        if spot in ("last", "before the last"):
            low = rank
        else:
            high = rank

    assert longest <= chars_max


def test_the_worst_order_of_insertions_costs_a_level_for_a_handful_of_items() -> None:
    """Each goes between the last two; then ranks are redistributed."""
    low, high = spread(None, None, 2)
    lengths: list[int] = []
    while not lengths or lengths[-1] <= RANK_CHARS_MAX:
        rank = between(low, high)
        lengths.append(len(rank))
        low, high = (rank, high) if len(lengths) % 2 else (low, rank)

    assert lengths == sorted(lengths)
    assert len(lengths) > 5 * (RANK_CHARS_MAX - FIRST_CHARS) // NEXT_CHARS
