"""Puts the report together: one HTML file that needs no other file and no network."""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from headrace.pipeline.report import charts, sections
from headrace.pipeline.report.charts import Series, sparkline
from headrace.pipeline.report.html import Html, escaped, joined, tag
from headrace.pipeline.report.model import OUTCOMES, QUANTILES, WRITTEN_BY, Numbers, Quantiles, Scope, TimeSpan, View
from headrace.pipeline.report.queries import OTHERS
from headrace.pipeline.report.scale import NONE, every, exact, instant, milliseconds, percent, queues_text, short


def page(numbers: Numbers, *, title: str) -> str:
    """The whole page as text."""
    style, script, frame = (_file(f"page.{finished_job}") for finished_job in ("css", "js", "html"))
    first, *others = numbers.views
    templates = [tag("template", _view(view, numbers), data_view=view.scope.name) for view in others]
    parts = {
        # Scripts run only if they are this very one, and nothing may be loaded, whatever a text on the page says.
        "POLICY": f"default-src 'none'; style-src 'unsafe-inline'; script-src '{_digest(script)}'; img-src data:",
        "TITLE": escaped(title),
        "STYLE": style,
        "SCRIPT": script,
        "SPAN": _span_text(numbers),
        "MADE": f"{instant(numbers.made_at_ms)[:19]} UTC",
        "PICKER": str(joined(_picker([view.scope for view in numbers.views]))),
        "VIEW": str(_view(first, numbers)),
        "TEMPLATES": str(joined(*templates)),
    }
    pieces = frame.split("%%")  # once: what stands in a part is never taken for a place
    return "".join(parts[piece] if index % 2 else piece for index, piece in enumerate(pieces))


def _view(view: View, numbers: Numbers) -> Html:
    span = numbers.span
    return joined(
        tiles(view, span),
        tag(
            "div",
            _throughput(view, span),
            *(_latency(what, view, numbers) for what in ("wait", "run")),
            _backlog(view, span),
            sections.failures(view) if view.failures is not None else _lacking("Failures", "errors"),
            sections.kinds(view) if view.kinds is not None else _lacking("Slowest kinds", "stats"),
            sections.usage(view) if view.usage is not None else _lacking("Usage", "usage"),
            class_="cards",
        ),
    )


def _throughput(view: View, span: TimeSpan | None) -> Html:
    if view.counts is None or span is None:
        return _lacking("Throughput", "stats")
    series = [Series(name, name, view.counts[name], short(sum(view.counts[name]))) for name in OUTCOMES]
    what = "Deliveries that ended, and jobs that expired" if any(view.counts["expired"]) else "Deliveries that ended"
    about = f"{what}, {every(span.bucket_ms)}."
    return charts.stacked_columns("Throughput", about, span, series, exact)


def _latency(what: str, view: View, numbers: Numbers) -> Html:
    title, about = {
        "wait": ("Waiting", "From due to claimed: percentiles of the deliveries that ended."),
        "run": ("Running", "From claimed to settled: percentiles of the deliveries that ended."),
    }[what]
    if view.latency is None or numbers.span is None:
        return _lacking(title, "stats")
    quantiles = [getattr(latency, what) for latency in view.latency]
    series = [Series(name, name, [getattr(one, name) for one in quantiles]) for name in QUANTILES]
    if all(one.is_empty for one in series) and not any(one.p50 is not None for one in quantiles):
        return charts.empty(title, "No delivery has ended.")
    return charts.lines(title, about, numbers.span, series, milliseconds)


def _backlog(view: View, span: TimeSpan | None) -> Html:
    if view.counts is None or span is None:
        return _lacking("Backlog", "stats")
    if view.backlog is None:
        return charts.empty("Backlog", "Unknown: the journal's beginning is gone, and with it what was open then.")
    series = [
        Series("others" if name == OTHERS else name, view.look(name), levels, short(levels[-1]))
        for name, levels in view.backlog.items()
    ]
    about = f"Jobs that wait or run, counted {every(span.bucket_ms)}."
    if view.unknown:
        about += f" Not known for {queues_text(view.unknown)}, whose journal has lost its beginning."
    return charts.stacked_areas("Backlog", about, span, series, exact)


def _lacking(title: str, table: str) -> Html:
    command = tag("code", f"headrace pipeline {WRITTEN_BY[table]}")
    return charts.empty(title, joined(f"There is no table of {table} yet; ", command, " writes it."))


def _picker(scopes: list[Scope]) -> Html | None:
    if len(scopes) < 2:
        return None
    is_many = len({scope.tenant for scope in scopes}) > 2
    options = [
        tag("option", ("\u2003" if scope.queue and is_many else "") + _label(scope, is_many), value=scope.name)
        for scope in scopes
    ]
    return tag("label", "Show ", tag("select", *options, id="pick"), class_="picker", hidden=True)


def _label(scope: Scope, is_many: bool) -> str:
    if not scope.tenant:
        return "all tenants" if is_many else "all queues"
    return scope.queue or scope.tenant


def _span_text(numbers: Numbers) -> str:
    span, of = numbers.span, numbers.part
    time = "No statistics yet" if span is None else f"{instant(span.start_ms)} to {instant(span.end_ms)} UTC"
    return escaped(f"{time}; only {of}" if of else time)


def _file(name: str) -> str:
    return (resources.files("headrace.pipeline.report") / name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def tiles(view: View, span: TimeSpan | None) -> Html:
    """All tiles of a view."""
    return tag("div", *_of_counts(view, span), *_of_latency(view), _open(view), class_="tiles")


def _of_counts(view: View, span: TimeSpan | None) -> list[Html]:
    if view.counts is None or span is None:
        return []
    done, dead = view.counts["done"], view.counts["dead"]
    failed = _failed(view.counts)
    ended = sum(done) + sum(failed)
    peak = max(done) / (span.bucket_ms / 1_000)
    share = f"{percent(sum(failed) / ended)} of all" if ended else "nothing ended"
    return [
        _tile("Done", sum(done), f"peak {short(peak)} per second", done, "done"),
        _tile("Failed attempts", sum(failed), share, failed, "retried"),
        _tile("Dead", sum(dead), "in the dead letters" if sum(dead) else "no job died", dead, "dead"),
    ]


def _failed(counts: dict[str, list[int]]) -> list[int]:
    """Deliveries that failed; what expired was never delivered."""
    names = ("retried", "stalled", "dead", "expired")
    return [
        retried + stalled + dead - expired
        for retried, stalled, dead, expired in zip(*(counts[name] for name in names), strict=True)
    ]


def _of_latency(view: View) -> list[Html]:
    if view.overall is None:
        return []
    by_bucket = view.latency or []
    return [
        _time("Wait, p95", view.overall.wait, [latency.wait.p95 for latency in by_bucket]),
        _time("Run, p95", view.overall.run, [latency.run.p95 for latency in by_bucket]),
    ]


def _open(view: View) -> Html | None:
    if view.backlog is None:
        return None
    levels = [sum(values) for values in zip(*view.backlog.values(), strict=True)]
    about = f"peak {short(max(levels))}"
    if view.unknown:
        about += f"; unknown for {queues_text(view.unknown)}"
    return _tile("Backlog at the end", levels[-1], about, levels, "s0")


def _tile(name: str, number: int, about: str, values: Sequence[int | None], look: str) -> Html:
    shown = exact(number) if number < 1_000_000 else short(number)
    return _box(name, shown, exact(number), about, sparkline(values, look))


def _time(name: str, quantiles: Quantiles, values: Sequence[int | None]) -> Html:
    shown = milliseconds(quantiles.p95)
    about = f"median {milliseconds(quantiles.p50)}" if quantiles.p50 is not None else NONE
    return _box(name, shown, shown, about, sparkline(values, "p95"))


def _box(name: str, shown: str, full: str, about: str, curve: Html | None) -> Html:
    return tag(
        "div",
        tag("h2", name),
        tag("p", shown, class_="figure", title=full if full != shown else None),
        tag("p", about, class_="about"),
        curve,
        class_="card tile",
    )
