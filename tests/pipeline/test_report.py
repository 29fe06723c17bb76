"""Promises of the report's parts: round axes, readable numbers, bounded views, and text that stays text."""

import re

import pytest

from headrace.model.limits import PAGE_BUCKETS_MAX, PAGE_QUEUES_MAX, PAGE_TENANTS_MAX
from headrace.pipeline.report import scale
from headrace.pipeline.report.html import Html, joined, line, tag
from headrace.pipeline.report.model import (
    ALL,
    COUNTED,
    Failure,
    Kind,
    Latency,
    Numbers,
    Quantiles,
    Sample,
    Scope,
    TimeSpan,
    Usage,
    View,
)
from headrace.pipeline.report.page import page
from headrace.pipeline.report.scale import bytes_text, clock, every, exact, percent, short, tick_ms
from headrace.pipeline.report.views import ViewRequest, named_of, scopes_of, span_of, views_of

T0 = 1_790_000_040_000
LONG = "a-very-long-name." * 7


def seen(tenant: str, queue: str, amount: int = 1, **times: int) -> dict[str, object]:
    return {"tenant": tenant, "queue": queue, "amount": amount, "start_ms": T0, "end_ms": T0 + 60_000} | {
        "window_ms": 60_000,
        **times,
    }


@pytest.mark.parametrize(
    ("top", "ticks"),
    [
        (0, ["0", "1"]),
        (1, ["0", "1"]),
        (3, ["0", "1", "2", "3"]),
        (7, ["0", "2", "4", "6"]),
        (10, ["0", "5", "10"]),
        (123, ["0", "50", "100"]),
        (4_007, ["0", "2,000", "4,000"]),
        (1_000_000_000, ["0", "250M", "500M", "750M", "1G"]),
    ],
)
def test_an_axis_of_counts_has_whole_round_marks_and_ends_just_above_the_largest(top: int, ticks: list[str]) -> None:
    axis = scale.counts(top)

    assert [tick.text for tick in axis.ticks] == ticks
    assert axis.place(0) == 0
    assert max(axis.place(top), axis.ticks[-1].place) == pytest.approx(1 / scale.HEADROOM)


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([], ["0", "1 ms"]),
        ([0, 0], ["0", "1 ms"]),
        ([3, 4], ["0", "1 ms", "2 ms", "3 ms", "4 ms"]),
        ([900, 2_100], ["0", "1 s", "2 s"]),
        ([60_000, 100_000], ["0", "30 s", "1 m", "1.5 m"]),
        ([50] * 9 + [90_000], ["100 ms", "1 s", "10 s", "1 m"]),
        ([1] * 9 + [31_536_000_000_000], ["1 ms", "100 ms", "10 s", "10 m", "10 h", "10 d"]),
    ],
)
def test_an_axis_of_durations_has_round_marks_and_is_logarithmic_where_one_value_towers(
    values: list[int], ticks: list[str]
) -> None:
    axis = scale.durations(values)

    assert [tick.text for tick in axis.ticks] == ticks
    assert all(0 <= axis.place(value) <= 1 for value in values)
    assert all(axis.place(max(values)) > 0.9 for _ in values if max(values) > 0)


@pytest.mark.parametrize("windows", [1, 2, 119, 120, 121, 10_000, 3_000_000])
@pytest.mark.parametrize("window_ms", [1_000, 7_000, 60_000, 3_600_000])
def test_any_time_is_cut_into_few_buckets_of_whole_windows(windows: int, window_ms: int) -> None:
    start = T0 // window_ms * window_ms

    span = span_of([seen("t", "q", start_ms=start, end_ms=start + windows * window_ms, window_ms=window_ms)])

    assert span is not None
    assert 1 <= span.buckets <= PAGE_BUCKETS_MAX
    assert span.bucket_ms % window_ms == span.start_ms % span.bucket_ms == 0
    assert span.start_ms <= start < start + windows * window_ms <= span.end_ms


def test_marks_of_time_are_round_and_few() -> None:
    marks = scale.instants(T0, T0 + 100 * 60_000, 9)

    assert [mark.text for mark in marks] == ["14:15", "14:30", "14:45", "15:00", "15:15", "15:30", "15:45"]
    assert all(0 <= mark.place < 1 for mark in marks)


def test_numbers_are_short_where_they_are_large_and_never_vanish() -> None:
    assert [short(number) for number in (0, 7, 0.004, 1.234, 999, 1_234, 45_600, 1_000_000, 2.5e12)] == [
        *("0", "7", "<0.01", "1.23", "999", "1,234", "45.6k", "1M", "2.5T")
    ]
    assert [percent(share) for share in (None, 0, 0.00001, 0.0004, 0.042, 0.99995, 1)] == [
        *("–", "0%", "<0.01%", "0.04%", "4.2%", ">99.99%", "100%")
    ]
    assert [bytes_text(size) for size in (0, 999, 1_500, 20_000_000)] == ["0 B", "999 B", "1.5 KB", "20 MB"]
    assert [exact(number) for number in (1_234_567, 0.5)] == ["1,234,567", "0.5"]
    assert [tick_ms(ms) for ms in (1, 2_500, 90_000)] == ["1 ms", "2.5 s", "1.5 m"]
    assert [every(ms) for ms in (250, 1_000, 900_000, 86_400_000)] == [
        *("every 250 ms", "each second", "every 15 minutes", "each day")
    ]
    assert [clock(T0, step) for step in (500, 1_000, 60_000, 86_400_000)] == ["14:14:00", "14:14:00", "14:14", "21 Sep"]


def test_whatever_is_no_markup_is_escaped() -> None:
    element = tag("p", "<b>&\x00", Html("<i>"), None, 7, title='"><x>', hidden=True, id=None, data_view="a")

    assert str(element) == ('<p title="&quot;&gt;&lt;x&gt;" hidden data-view="a">&lt;b&gt;&amp;\ufffd<i>7</p>')
    assert str(joined("a<", None)) == "a&lt;"


def test_a_line_is_interrupted_where_nothing_is_known_and_a_lone_point_is_a_dot() -> None:
    drawn = str(line([(0, 0), (0.25, 1), (0.5, None), (0.75, 0.5), (1, None)], "p50"))

    assert re.findall(r'd="([^"]*)" class="([^"]*)"', drawn) == [
        ("M0 1000L250 0", "line p50"),
        ("M750 500h0", "line dots p50"),
    ]


def test_only_the_busiest_tenants_and_queues_have_views_the_busiest_first() -> None:
    rows = [seen(f"tenant{n:02}", f"queue{m}", n * 10 + m) for n in range(50) for m in range(3)]

    scopes = scopes_of(rows)

    assert scopes[0] == ALL
    assert [scope.tenant for scope in scopes if scope.tenant and not scope.queue] == [
        f"tenant{n}" for n in range(49, 49 - PAGE_TENANTS_MAX, -1)
    ]
    assert sum(bool(scope.queue) for scope in scopes) == PAGE_QUEUES_MAX


def test_a_tenant_or_queue_that_is_alone_has_no_second_view() -> None:
    assert scopes_of([seen("acme", "mail")]) == [ALL]
    assert scopes_of([seen("acme", "mail"), seen("acme", "web")]) == [ALL, Scope("acme", "mail"), Scope("acme", "web")]


def test_names_are_given_to_queues_with_a_view_and_to_those_that_are_alone() -> None:
    rows = [seen("acme", "mail"), seen("acme", "web"), seen("birch", "web")]

    assert named_of(rows, [ALL, Scope("acme"), Scope("acme", "mail"), Scope("birch")])[4:] == [Scope("birch", "web")]
    assert named_of(rows[2:], [ALL]) == [ALL, Scope("birch", "web")]
    assert named_of(rows, [ALL, Scope("acme")]) == [ALL, Scope("acme")]


def test_tenants_beyond_the_first_are_summed_up_as_others() -> None:
    row = {"day": None, "enqueued": 1, "done": 1, "dead": 0, "deliveries": 1, "payload_bytes": 10}
    rows = [row | {"tenant": f"t{n:02}", "run_ms": 100 - n} for n in range(50)]

    (view,) = views_of([ALL], None, ViewRequest(usage=rows))

    assert view.usage is not None
    assert [usage.name for usage in view.usage[-2:]] == ["t07", "42 others"]
    assert view.usage[-1] == Usage("42 others", 42, 42, 0, 42, sum(100 - n for n in range(8, 50)), 420)


def test_the_largest_page_stays_below_five_megabytes() -> None:
    span = TimeSpan(T0, 60_000, PAGE_BUCKETS_MAX, 60_000)
    huge = [10**9 + n for n in range(span.buckets)]
    latency = Latency(Quantiles(1, 10**6, 10**9), Quantiles(3, 10**7, 10**10), 10**11)
    names = [f"{LONG}{n}" for n in range(PAGE_TENANTS_MAX + 1)]
    samples = [Sample(LONG, LONG, "i" * 1_000, T0, "m" * 10_000)] * 3
    failure = Failure("f" * 12, LONG, "t" * 10_000, names * 9, names * 9, names * 9, 10**9, 10**8, 9, T0, T0, samples)
    full = View(
        ALL,
        counts=dict.fromkeys(COUNTED, huge),
        backlog=dict.fromkeys(names, huge),
        latency=[latency] * span.buckets,
        overall=latency,
        kinds=[Kind(LONG, 10**9, 10**8, latency)] * 10,
        failures=[failure] * 8,
        usage=[Usage(name, *[10**12] * 6) for name in names],
    )
    views = 1 + PAGE_TENANTS_MAX + PAGE_QUEUES_MAX

    text = page(Numbers([full] * views, span, T0), title="Large")

    assert len(text.encode()) < 5_000_000
