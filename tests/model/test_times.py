"""Times as people write them."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import Refused
from headrace.model.limits import DURATION_MS_MAX, TIME_MS_MAX
from headrace.model.times import (
    Duration,
    Instant,
    duration_ms,
    duration_text,
    instant_ms,
    instant_text,
    read_instant_ms,
)


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("250ms", 250),
        ("30s", 30_000),
        ("5m", 300_000),
        ("1.5h", 5_400_000),
        ("2d", 172_800_000),
        ("0.29s", 290),
        ("5 m", 300_000),
        (30, 30_000),
        (0, 0),
        (1.5, 1_500),
        (0.29, 290),
        (timedelta(minutes=2, milliseconds=7), 120_007),
        ("366d", DURATION_MS_MAX),
    ],
)
def test_a_duration_is_a_text_with_its_unit_or_a_number_of_seconds(written: Duration, ms: int) -> None:
    assert duration_ms("delay", written) == ms


@pytest.mark.parametrize("tiny", ["0.2ms", 0.000_01, timedelta(microseconds=3)])
def test_a_duration_that_is_longer_than_nothing_does_not_become_nothing(tiny: Duration) -> None:
    """A time-out of zero would mean none."""
    assert duration_ms("timeout", tiny) == 1


@pytest.mark.parametrize("negative", ["-1s", -1, -0.5, timedelta(seconds=-1)])
def test_a_negative_duration_is_refused_with_the_name_of_its_argument(negative: Duration) -> None:
    """T7: a time-out cannot be negative."""
    with pytest.raises(Refused, match="timeout cannot be negative; found") as caught:
        duration_ms("timeout", negative)

    assert caught.value.reason == "bad_timeout"


@pytest.mark.parametrize("nonsense", ["", "30", "30 s ", "s", "1w", "1h30m", "٣s", None, True, [], b"30s"])
def test_an_invalid_duration_is_refused_with_valid_forms(nonsense: Any) -> None:
    with pytest.raises(Refused, match="is not a valid duration; use a number and a unit"):
        duration_ms("delay", nonsense)


@pytest.mark.parametrize("long", ["367d", "9" * 400 + "d", float("inf"), float("nan"), 10**400, timedelta.max])
def test_more_than_a_year_is_taken_for_a_mistake_in_the_unit(long: Duration) -> None:
    with pytest.raises(Refused, match="delay must be at most 366 days"):
        duration_ms("delay", long)


def test_an_instant_is_a_datetime_with_a_zone_or_milliseconds() -> None:
    berlin = timezone(timedelta(hours=2))

    assert instant_ms("run_at", 1_700_000_000_123) == 1_700_000_000_123
    assert instant_ms("run_at", datetime(2023, 11, 14, 22, 13, 20, 123_999, UTC)) == 1_700_000_000_123
    assert instant_ms("run_at", datetime(2023, 11, 15, 0, 13, 20, tzinfo=berlin)) == 1_700_000_000_000


@given(st.integers(0, TIME_MS_MAX))
def test_a_datetime_and_its_milliseconds_are_the_same_instant(ms: int) -> None:
    assert instant_ms("run_at", datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)) == ms


def test_a_datetime_without_a_zone_is_refused() -> None:
    with pytest.raises(Refused, match="run_at 2030-01-01T12:00:00 has no time zone") as caught:
        instant_ms("run_at", datetime(2030, 1, 1, 12))  # noqa: DTZ001 - what the test is about

    assert caught.value.reason == "bad_run_at"


@pytest.mark.parametrize("nonsense", [1.5, "2030-01-01", None, True, -1, TIME_MS_MAX + 1])
def test_an_invalid_instant_is_refused(nonsense: Instant) -> None:
    with pytest.raises(Refused, match="run_at must be"):
        instant_ms("run_at", nonsense)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (12_340, "12.3 s"),
        (59_949, "59.9 s"),
        (60_000, "1 m 0 s"),
        (303_999, "5 m 3 s"),
        (7_800_000, "2 h 10 m"),
        (86_400_000, "1 d 0 h"),
        (273_600_000, "3 d 4 h"),
        (-5_000, "-5.0 s"),
    ],
)
def test_a_duration_is_shown_in_its_two_largest_units(ms: int, text: str) -> None:
    assert duration_text(ms) == text


@given(st.integers(0, TIME_MS_MAX))
def test_an_instant_is_shown_as_it_can_be_parsed(ms: int) -> None:
    assert read_instant_ms("since", instant_text(ms)) == ms
    assert read_instant_ms("since", str(ms)) == ms


def test_an_instant_is_read_with_its_zone() -> None:
    assert instant_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert read_instant_ms("since", "2023-11-15T00:13:20+02:00") == 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "yesterday",
            "since 'yesterday' is not a valid time; write it with its zone, as in 2030-01-31T12:00:00Z",
        ),
        ("", "since '' is not a valid time"),
        ("2030-01-31T12:00:00", "since 2030-01-31T12:00:00 has no time zone"),
        ("2030-13-01T12:00:00Z", "is not a valid time"),
        ("-5", "is not a valid time"),
        ("²", "is not a valid time"),
        (str(TIME_MS_MAX + 1), "since must be"),
    ],
)
def test_an_invalid_instant_is_refused_with_valid_forms(text: str, message: str) -> None:
    with pytest.raises(Refused) as caught:
        read_instant_ms("since", text)

    assert message in str(caught.value)
    assert caught.value.reason == "bad_since"
