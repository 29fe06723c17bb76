"""Lists with bars: failures by fingerprint, usage, and the slowest kinds."""

import math
from collections.abc import Sequence

from headrace.model.limits import PAGE_TEXT_CHARS_MAX
from headrace.pipeline.report.html import Content, Html, joined, named, tag
from headrace.pipeline.report.model import Failure, Kind, Usage, View
from headrace.pipeline.report.scale import bytes_text, exact, instant, milliseconds, percent, short

NAMES_MAX = 6
"""Kinds, queues or tenants of a fingerprint that are named."""
NAME_CHARS_MAX = 80
"""Characters of an error's class."""
_INTERNAL = tag("span", "internal", class_="mark", title="Enqueued by Headrace itself, not by an app")


def failures(view: View) -> Html:
    """What fails: a bar for each fingerprint, deaths at its beginning, and jobs to look at."""
    shown = view.failures or []
    top = max((failure.failures for failure in shown), default=1)
    items = [_failure(failure, top, with_tenants=not view.scope.tenant) for failure in shown]
    more, more_failures = view.failures_more
    rest = tag("p", f"and {exact(more)} more with {exact(more_failures)} failures", class_="more") if more else None
    about: Content = "Failures of one cause together: numbers, ids and addresses are folded."
    legend = tag(
        "ul",
        tag("li", tag("b", class_="swatch dead"), "the job died"),
        tag("li", tag("b", class_="swatch retried"), "the attempt is retried"),
        class_="legend",
    )
    content = joined(legend, tag("ol", *items, class_="failures"), rest) if items else _nothing("Nothing has failed.")
    return _section("Failures", about, content)


def usage(view: View) -> Html:
    """Who uses how much: a row for each tenant, or for each day of one, with a bar for the time that handlers ran."""
    shown = view.usage or []
    top = max((one.run_ms for one in shown), default=0)
    who = "day" if view.usage_is_by_day else "tenant"
    head = [
        (who, ""),
        ("handlers ran", "bar-head"),
        ("", ""),
        ("enqueued", "wide"),
        ("done", "wide"),
        ("dead", "wide"),
        ("payload", ""),
    ]
    rows = [_used(one, top, "s0" if view.usage_is_by_day else view.look(one.name)) for one in shown]
    about = f"By {who}: how long handlers ran, and what was enqueued." if rows else ""
    content = _grid(head, rows) if rows else _nothing("There is no usage yet.")
    return _section("Usage", about, content)


def kinds(view: View) -> Html:
    """The kinds with the longest runs, each as a range from p50 over p95 to p99."""
    shown = view.kinds or []
    low, high = _bounds(shown)
    head = [
        ("kind", ""),
        ("p50 ━ p95 ─ p99", "bar-head"),
        ("run p50", "wide"),
        ("p95", ""),
        ("p99", "wide"),
        ("longest", "wide"),
        ("wait p95", "wide"),
        ("deliveries", "wide"),
        ("failed", ""),
    ]
    rows = [_kind(kind, low, high) for kind in shown]
    more = tag("p", f"and {exact(view.kinds_more)} faster kinds", class_="more") if view.kinds_more > 0 else None
    content = joined(_grid(head, rows), more) if rows else _nothing("No delivery has ended.")
    about = "By the 95th percentile of run time; the scale is logarithmic." if rows else ""
    return _section("Slowest kinds", about, content)


def _failure(failure: Failure, top: int, *, with_tenants: bool) -> Html:
    deaths = min(failure.deaths, failure.failures)
    bar = tag(
        "div",
        tag("i", class_="dead", style=f"width:{deaths / top:.2%}"),
        tag("i", class_="retried", style=f"width:{(failure.failures - deaths) / top:.2%}"),
        class_="bar",
        aria_hidden="true",
    )
    counts = f"{_many(deaths, 'death')} · {_many(failure.jobs, 'job')} · last seen {instant(failure.last_ms)[:19]}"
    facts = [("kinds", failure.kinds), ("queues", failure.queues)]
    if with_tenants:
        facts.append(("tenants", failure.tenants))
    details = [
        *(_fact(name, _names(names)) for name, names in facts),
        _fact("first seen", f"{instant(failure.first_ms)} UTC"),
        _fact("last seen", f"{instant(failure.last_ms)} UTC"),
        _fact("fingerprint", tag("code", failure.fingerprint)),
    ]
    samples = [
        tag(
            "tr",
            tag("td", instant(sample.at_ms)),
            tag("td", named(f"{sample.tenant}/{sample.queue}")),
            tag("td", tag("code", _cut(sample.id))),
            tag("td", _cut(sample.message)),
        )
        for sample in failure.samples
    ]
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in ("UTC", "queue", "job", "message"))))
    table = tag("div", tag("table", head, tag("tbody", *samples)), class_="scroll") if samples else None
    return tag(
        "li",
        tag(
            "p",
            tag("b", named(_cut(failure.error_class, NAME_CHARS_MAX))),
            " ",
            tag("code", _cut(failure.template)),
            class_="what",
        ),
        bar,
        tag("p", _brief(failure.failures), class_="count", title=exact(failure.failures)),
        tag("details", tag("summary", counts), tag("dl", *details), table),
    )


def _used(one: Usage, top: int, look: str) -> Html:
    share = one.run_ms / top if top else 0
    return tag(
        "tr",
        tag("th", named(one.name), scope="row"),
        tag(
            "td",
            tag("div", tag("i", class_=look, style=f"width:{share:.2%}"), class_="bar"),
            class_="bar-cell",
            aria_hidden="true",
        ),
        tag("td", milliseconds(one.run_ms)),
        tag("td", exact(one.enqueued), class_="wide"),
        tag("td", exact(one.done), class_="wide"),
        tag("td", exact(one.dead), class_="wide"),
        tag("td", bytes_text(one.payload_bytes), title=f"{exact(one.payload_bytes)} bytes"),
    )


def _kind(kind: Kind, low: float, high: float) -> Html:
    run, wait = kind.latency.run, kind.latency.wait
    p50, p95, p99 = (_log_place(value, low, high) for value in (run.p50, run.p95, run.p99))
    range_ = tag(
        "div",
        tag("i", class_="thin", style=f"left:{p50:.2%};width:{p99 - p50:.2%}"),
        tag("i", class_="thick", style=f"left:{p50:.2%};width:{p95 - p50:.2%}"),
        tag("i", class_="dot", style=f"left:{p50:.2%}"),
        tag("i", class_="top", style=f"left:{p99:.2%}"),
        class_="range",
    )
    failed = kind.failed / kind.deliveries if kind.deliveries else None
    return tag(
        "tr",
        tag("th", named(kind.kind), _INTERNAL if kind.is_internal else None, scope="row"),
        tag("td", range_, class_="bar-cell", aria_hidden="true"),
        tag("td", milliseconds(run.p50), class_="wide"),
        tag("td", milliseconds(run.p95)),
        tag("td", milliseconds(run.p99), class_="wide"),
        tag("td", milliseconds(kind.latency.run_max), class_="wide"),
        tag("td", milliseconds(wait.p95), class_="wide"),
        tag("td", exact(kind.deliveries), class_="wide"),
        tag("td", percent(failed), title=f"{exact(kind.failed)} of {exact(kind.deliveries)}"),
    )


def _bounds(shown: Sequence[Kind]) -> tuple[float, float]:
    values = [
        max(value, 1) for kind in shown for value in (kind.latency.run.p50, kind.latency.run.p99) if value is not None
    ]
    low, high = (min(values), max(values)) if values else (1, 10)
    return float(low), float(max(high, low * 2))


def _log_place(value: int | None, low: float, high: float) -> float:
    return math.log(max(value or 1, low) / low) / math.log(high / low)


def _section(title: str, about: Content, content: Html) -> Html:
    return tag("section", tag("header", tag("h2", title), tag("p", about)), content, class_="card")


def _grid(head: Sequence[tuple[str, str]], rows: Sequence[Html]) -> Html:
    cells = [tag("th", name, scope="col", class_=look or None) for name, look in head]
    table = tag("table", tag("thead", tag("tr", *cells)), tag("tbody", *rows), class_="grid")
    return tag("div", table, class_="scroll")


def _fact(name: str, content: Content) -> Html:
    return tag("div", tag("dt", name), tag("dd", content))


def _names(names: Sequence[str]) -> str:
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {exact(more)} more" if more > 0 else "")


def _brief(number: int) -> str:
    return exact(number) if number < 10_000_000 else short(number)


def _nothing(text: str) -> Html:
    return tag("p", text, class_="nothing")


def _many(number: int, what: str) -> str:
    return f"{exact(number)} {what}{'' if number == 1 else 's'}"


def _cut(text: str, chars_max: int = PAGE_TEXT_CHARS_MAX) -> str:
    return text if len(text) <= chars_max else f"{text[:chars_max]}…"
