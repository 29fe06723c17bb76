"""Charts over time: a plot with axes, a legend, and the exact numbers in a table below."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from msgspec import Struct

from headrace.pipeline.report import scale
from headrace.pipeline.report.html import Content, Html, area, columns, joined, line, named, plot, tag
from headrace.pipeline.report.model import TimeSpan
from headrace.pipeline.report.scale import NONE, instant

PLOT_PX = 200
"""Height of a plot; the style sheet has the same number. Labels are kept apart by it."""
LABEL_PX = 15
"""Room that the label at the end of a line takes."""
MARKS_MAX = 9
MARKS_MAX_HALF = 6
"""Marks on an axis of time, over the page's width or half of it; where there is little room every second one is left
out."""


class Series(Struct, frozen=True):
    """One curve or colour: a value for each bucket, None where there is none; `look` is a class of the style sheet."""

    name: str
    look: str
    values: Sequence[int | None]
    total: str = ""
    """What the legend says besides the name."""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to draw."""
        return not any(self.values)


def stacked_columns(
    title: str, about: Content, span: TimeSpan, series: Sequence[Series], text: Callable[[int], str]
) -> Html:
    """Columns on top of each other, the first series at the bottom."""
    axis, levels = _stack(series)
    shapes = [columns(low, high, one.look) for one, (low, high) in zip(series, pairwise(levels), strict=True)]
    return _figure(title, about, span, series, text, axis, shapes, legend=_legend(series))


def stacked_areas(
    title: str, about: Content, span: TimeSpan, series: Sequence[Series], text: Callable[[int], str]
) -> Html:
    """Areas on top of each other, the first series at the bottom; a value holds from the middle of its bucket."""
    axis, levels = _stack(series)
    xs = _middles(span)
    shapes: list[Html | None] = []
    for one, (low, high) in zip(series, pairwise(levels), strict=True):
        lower, upper = list(zip(xs, low, strict=True)), list(zip(xs, high, strict=True))
        if span.buckets == 1:
            shapes.append(columns(low, high, one.look))
        else:
            shapes += [area(lower, upper, one.look), None if one.is_empty else line(upper, one.look)]
    return _figure(title, about, span, series, text, axis, shapes, legend=_legend(series))


def lines(title: str, about: Content, span: TimeSpan, series: Sequence[Series], text: Callable[[int], str]) -> Html:
    """A line for each series, with its name at its end; values are durations in ms."""
    axis = scale.durations([value for one in series for value in one.values if value is not None])
    xs = _middles(span)
    shapes: list[Html | None] = []
    ends: list[tuple[float, Series]] = []
    for one in series:
        heights = [None if value is None else axis.place(value) for value in one.values]
        shapes.append(line(list(zip(xs, heights, strict=True)), one.look))
        if known := [height for height in heights if height is not None]:
            ends.append((known[-1], one))
    if axis.is_log:
        about = joined(about, " The scale is logarithmic.")
    return _figure(title, about, span, series, text, axis, shapes, ends=_ends(ends))


def sparkline(values: Sequence[int | None], look: str) -> Html | None:
    """A tiny curve without axes; nothing when there are less than two values to connect."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or not any(known):
        return None
    top = max(known) * 1.08  # room for the stroke
    room = 1 / len(values)
    points = [((index + 0.5) * room, None if value is None else value / top) for index, value in enumerate(values)]
    solid = [(x, y) for x, y in points if y is not None]
    floor = [(x, 0.0) for x, _ in solid]
    return plot(area(floor, solid, look), line(points, look), class_="spark")


def empty(title: str, about: Content) -> Html:
    """A place where a chart would be, with the reason why there is none."""
    return tag("figure", tag("figcaption", tag("h2", title)), tag("p", about, class_="nothing"), class_="card")


def _stack(series: Sequence[Series]) -> tuple[scale.Scale, list[list[float]]]:
    count = len(series[0].values)
    sums: list[list[int]] = [[0] * count]
    for one in series:
        # A count below 0 can only come of a journal whose beginning is gone; nothing is drawn for it.
        sums.append([low + max(value or 0, 0) for low, value in zip(sums[-1], one.values, strict=True)])
    axis = scale.counts(max(sums[-1], default=0))
    return axis, [[axis.place(value) for value in level] for level in sums]


def _figure(
    title: str,
    about: Content,
    span: TimeSpan,
    series: Sequence[Series],
    text: Callable[[int], str],
    axis: scale.Scale,
    shapes: Sequence[Html | None],
    *,
    legend: Html | None = None,
    ends: Html | None = None,
) -> Html:
    marks = scale.instants(span.start_ms, span.end_ms, MARKS_MAX_HALF if ends else MARKS_MAX)
    grid = [tag("i", style=f"bottom:{tick.place:.2%}") for tick in axis.ticks]
    labels = [tag("span", tick.text, style=f"bottom:{tick.place:.2%}") for tick in axis.ticks]
    times = [tag("span", mark.text, style=f"left:{mark.place:.2%}") for mark in marks]
    drawing = tag(
        "div",
        *grid,
        plot(*shapes),
        tag("div", class_="cursor", hidden=True),
        class_="drawing",
        tabindex=0,
        role="img",
        aria_label=f"{title}; the numbers are in the table below",
    )
    return tag(
        "figure",
        tag("figcaption", tag("h2", title), tag("p", about)),
        legend,
        tag(
            "div",
            tag("div", *labels, class_="y", aria_hidden="true"),
            drawing,
            ends,
            tag("div", *times, class_="x", aria_hidden="true"),
            class_="plot with-ends" if ends else "plot",
        ),
        _table(span, series, text),
        class_="card chart",
    )


def _legend(series: Sequence[Series]) -> Html | None:
    shown = [one for one in series if not one.is_empty]
    items = [
        tag("li", tag("b", class_=f"swatch {one.look}"), named(one.name), tag("span", one.total) if one.total else None)
        for one in shown
    ]
    return tag("ul", *items, class_="legend") if items else None


def _ends(ends: list[tuple[float, Series]]) -> Html | None:
    """Names at the ends of lines, moved apart where they would overlap."""
    if not ends:
        return None
    ordered = sorted(ends, key=lambda end: end[0])
    places = [height * PLOT_PX for height, _ in ordered]
    for index in range(1, len(places)):
        places[index] = max(places[index], places[index - 1] + LABEL_PX)
    over = places[-1] - PLOT_PX
    if over > 0:  # pushed out at the top: all of them go down as far as needed
        places[-1] = PLOT_PX
        for index in range(len(places) - 2, -1, -1):
            places[index] = min(places[index], places[index + 1] - LABEL_PX)
    labels = [
        tag("span", one.name, class_=one.look, style=f"bottom:{place:.0f}px")
        for place, (_, one) in zip(places, ordered, strict=True)
    ]
    return tag("div", *labels, class_="ends", aria_hidden="true")


def _table(span: TimeSpan, series: Sequence[Series], text: Callable[[int], str]) -> Html:
    head = [tag("th", named(one.name), scope="col", data_look=one.look) for one in series]
    rows = [
        tag(
            "tr",
            tag("th", instant(start), scope="row"),
            *(tag("td", NONE if value is None else text(value)) for value in values),
        )
        for start, *values in zip(span.starts(), *(one.values for one in series), strict=True)
    ]
    table = tag("table", tag("thead", tag("tr", tag("th", "from (UTC)", scope="col"), *head)), tag("tbody", *rows))
    return tag("details", tag("summary", "Numbers"), tag("div", table, class_="scroll"))


def _middles(span: TimeSpan) -> list[float]:
    return [(index + 0.5) / span.buckets for index in range(span.buckets)]
