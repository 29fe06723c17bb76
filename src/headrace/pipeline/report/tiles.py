"""The totals on top of a view: a large number, what it means, and a small curve."""

from collections.abc import Sequence

from headrace.pipeline.report.charts import sparkline
from headrace.pipeline.report.html import Html, tag
from headrace.pipeline.report.model import Quantiles, TimeSpan, View
from headrace.pipeline.report.texts import NONE, exact, milliseconds, percent, queues_text, short


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
