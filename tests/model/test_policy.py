"""Policies: bounds, layering, and the backoff between attempts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import Refused
from headrace.model.limits import ATTEMPTS_MAX, DURATION_MS_MAX, JITTER_PPM
from headrace.model.policy import NO_POLICY, Policy, backoff

durations = st.integers(0, DURATION_MS_MAX)
attempt_numbers = st.integers(1, ATTEMPTS_MAX)
jitters = st.integers(0, JITTER_PPM)


@pytest.mark.parametrize("attempts", range(1, 41))
def test_the_backoff_doubles_exactly(attempts: int) -> None:
    """Q29, C24: 2^(attempts - 1) times the first, to the millisecond, for as long as the cap allows."""
    exact_ms = 3 * 2 ** (attempts - 1)

    assert backoff(attempts, 3, DURATION_MS_MAX) == min(exact_ms, DURATION_MS_MAX)


def test_the_default_backoff_is_two_seconds_to_five_minutes() -> None:
    """Q31: 2 s, 4 s, 8 s … at most 5 min."""
    delays = [backoff(attempts, 2_000, 300_000) for attempts in range(1, 11)]

    assert delays == [2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 300_000, 300_000]


@pytest.mark.parametrize("attempts", [61, 62, 63, 64, 65, 1_000, 10_000, ATTEMPTS_MAX])
@pytest.mark.parametrize("backoff_ms", [1, 5_000, DURATION_MS_MAX])
def test_the_backoff_does_not_overflow(attempts: int, backoff_ms: int) -> None:
    """CB13: attempt 10,000 is as right as attempt 10."""
    assert backoff(attempts, backoff_ms, 900_000) == 900_000


@pytest.mark.parametrize("attempts", [1, 2, 10_000])
def test_no_backoff_stays_none(attempts: int) -> None:
    assert backoff(attempts, 0, 300_000) == 0
    assert backoff(attempts, 2_000, 0) == 0


@given(attempt_numbers, durations, durations, jitters)
def test_a_backoff_is_never_negative_and_never_above_its_cap(
    attempts: int, backoff_ms: int, backoff_ms_max: int, jitter_ppm: int
) -> None:
    """CB13, T31: whatever the numbers."""
    delay_ms = backoff(attempts, backoff_ms, backoff_ms_max, jitter_ppm)

    assert type(delay_ms) is int
    assert 0 <= delay_ms <= backoff_ms_max


@given(attempt_numbers, durations, durations, jitters)
def test_a_backoff_never_shrinks_with_further_attempts(
    attempts: int, backoff_ms: int, backoff_ms_max: int, jitter_ppm: int
) -> None:
    """CB13: monotone, for the same jitter."""
    this_ms = backoff(attempts, backoff_ms, backoff_ms_max, jitter_ppm)
    next_ms = backoff(attempts + 1, backoff_ms, backoff_ms_max, jitter_ppm)

    assert this_ms <= next_ms


@given(st.integers(1, 200), durations, durations, jitters)
def test_a_backoff_equals_exact_arithmetic(
    attempts: int, backoff_ms: int, backoff_ms_max: int, jitter_ppm: int
) -> None:
    exact_ms = min(backoff_ms * 2 ** (attempts - 1), backoff_ms_max) * jitter_ppm // 1_000_000

    assert backoff(attempts, backoff_ms, backoff_ms_max, jitter_ppm) == exact_ms


@given(attempt_numbers, durations, durations)
def test_full_jitter_ranges_from_zero_to_the_whole_backoff(attempts: int, backoff_ms: int, backoff_ms_max: int) -> None:
    """C24: jitter is a number that comes in from outside."""
    whole_ms = backoff(attempts, backoff_ms, backoff_ms_max)

    assert backoff(attempts, backoff_ms, backoff_ms_max, 0) == 0
    assert backoff(attempts, backoff_ms, backoff_ms_max, JITTER_PPM) == whole_ms


def test_a_policy_on_top_of_another_wins_where_it_is_set() -> None:
    """Q11: field by field; zero is something."""
    below = Policy(priority=3, timeout_ms=500, max_attempts=4)

    assert Policy(priority=0, backoff_ms=7).over(below) == Policy(
        priority=0, timeout_ms=500, max_attempts=4, backoff_ms=7
    )
    assert NO_POLICY.over(below) == below
    assert below.over(NO_POLICY) == below


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("priority", 0, 9),
        ("timeout_ms", 0, DURATION_MS_MAX),
        ("max_attempts", 1, ATTEMPTS_MAX),
        ("max_stalls", 1, ATTEMPTS_MAX),
        ("backoff_ms", 0, DURATION_MS_MAX),
        ("backoff_ms_max", 0, DURATION_MS_MAX),
        ("result_ttl_ms", 0, DURATION_MS_MAX),
        ("expires_at_ms", 0, 253_402_300_799_999),
    ],
)
def test_a_policy_field_is_taken_within_its_bounds_and_refused_beyond(field: str, least: int, most: int) -> None:
    """T7, T9, C6: negative times and attempts, and priorities outside 0..9."""
    assert getattr(Policy(**{field: least}), field) == least
    assert getattr(Policy(**{field: most}), field) == most

    for beyond in (least - 1, most + 1):
        with pytest.raises(Refused) as refused:
            Policy(**{field: beyond})
        assert refused.value.reason == f"bad_{field}"
        assert str(refused.value) == f"{field} must be from {least:,} to {most:,}; found {beyond:,}"


@pytest.mark.parametrize("value", ["5", 5.0, True, b"5", [5]])
def test_a_policy_field_that_is_not_an_integer_is_refused(value: object) -> None:
    with pytest.raises(Refused, match=r"^priority must be a whole number; found (str|float|bool|bytes|list) "):
        Policy(priority=value)  # type: ignore[arg-type]
