"""Makes views of the tables' answers: for everything, and for the tenants and queues with most to show."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from msgspec import Struct

from headrace.model.limits import PAGE_BUCKETS_MAX, PAGE_DAYS_MAX, PAGE_QUEUES_MAX, PAGE_TENANTS_MAX
from headrace.model.redact import redact
from headrace.pipeline.report.model import (
    ALL,
    COUNTED,
    QUANTILES,
    Failure,
    Kind,
    Latency,
    Quantiles,
    Sample,
    Scope,
    TimeSpan,
    Usage,
    View,
)
from headrace.pipeline.report.queries import OTHERS
from headrace.pipeline.report.scale import bucket_ms


def scopes_of(rows: Iterable[dict[str, Any]]) -> list[Scope]:
    """Everything, then the tenants and queues with most to show, the busiest first, tenants with their queues behind.

    A tenant that is alone is everything already, and so is a queue that is alone.
    """
    amounts = Counter({Scope(row["tenant"], row["queue"]): row["amount"] or 0 for row in rows})
    by_tenant: Counter[str] = Counter()
    for scope, amount in amounts.items():
        by_tenant[scope.tenant] += amount
    tenants = [tenant for tenant, _ in _most(by_tenant)[:PAGE_TENANTS_MAX]]
    queues_of = Counter(scope.tenant for scope in amounts)
    worthy = Counter({scope: amount for scope, amount in amounts.items() if scope.tenant in tenants})
    queues = [scope for scope, _ in _most(worthy)[:PAGE_QUEUES_MAX] if queues_of[scope.tenant] > 1]
    shown = [ALL]
    for tenant in tenants:
        if len(by_tenant) > 1:
            shown.append(Scope(tenant))
        shown.extend(scope for scope in queues if scope.tenant == tenant)
    return shown


def named_of(rows: Iterable[dict[str, Any]], scopes: Iterable[Scope]) -> list[Scope]:
    """The scopes that are named where numbers are told apart: those with a view, and the queue of a tenant that has
    only one, which needs no view beside its tenant's."""
    queues_of: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        queues_of[row["tenant"]].append(row["queue"])
    views = list(scopes)
    shown = {scope.tenant for scope in views} if len(queues_of) > 1 else set(queues_of)
    alone = [Scope(tenant, *queues) for tenant, queues in queues_of.items() if tenant in shown and len(queues) == 1]
    return [*views, *alone]


def colours_of(named: Iterable[Scope]) -> dict[str, dict[str, int]]:
    """By tenant, the numbers of its queues in the order of the page; those of the tenants themselves are under ''."""
    colours: dict[str, dict[str, int]] = defaultdict(dict)
    for scope in named:
        for owner, name in (("", scope.tenant), (scope.tenant, scope.queue)):
            if name:
                colours[owner].setdefault(name, len(colours[owner]))
    return colours


def span_of(rows: Iterable[dict[str, Any]]) -> TimeSpan | None:
    """The time that rows of the overview cover; None when there are none."""
    known = list(rows)
    if not known:
        return None
    start, end = min(row["start_ms"] for row in known), max(row["end_ms"] for row in known)
    window = max(min(row["window_ms"] for row in known), 1)
    length = bucket_ms(start, end, window, PAGE_BUCKETS_MAX)
    first = start // length * length
    return TimeSpan(first, length, -(-(end - first) // length), window)


def _most(amounts: Counter[Any]) -> list[tuple[Any, int]]:
    return sorted(amounts.items(), key=lambda pair: (-pair[1], pair[0]))


Row = dict[str, Any]


class ViewRequest(Struct):
    """The answers, as rows of `queries`; None where the table is not there."""

    named: Sequence[Scope] = ()
    """Tenants and queues that are told apart, in the order of the page."""
    counts: list[Row] | None = None
    backlogs: list[Row] | None = None
    unknowns: list[Row] | None = None
    latencies: list[Row] | None = None
    kinds: list[Row] | None = None
    failures: list[Row] | None = None
    usage: list[Row] | None = None


def views_of(scopes: Sequence[Scope], span: TimeSpan | None, asked: ViewRequest) -> list[View]:
    """A view for each scope."""
    return [_view(scope, span, asked) for scope in scopes]


def _view(scope: Scope, span: TimeSpan | None, asked: ViewRequest) -> View:
    colours = _colours(scope, asked)
    kinds = None if asked.kinds is None else [row for row in asked.kinds if _exactly(row) == scope]
    failures = None if asked.failures is None else [row for row in asked.failures if _is_of(row, scope)]
    totals = next((row for row in kinds or [] if row["is_total"]), None)
    by_kind = [row for row in kinds or [] if not row["is_total"]]
    return View(
        scope,
        counts=_counts(scope, span, asked.counts),
        backlog=_backlog(scope, span, asked.backlogs, colours),
        colours=colours,
        unknown=sum(row["queues"] for row in asked.unknowns or [] if scope.covers(_of(row))),
        latency=_by_bucket(scope, span, asked.latencies),
        overall=_latency(totals) if totals else None,
        kinds=None if kinds is None else [_kind(row) for row in by_kind],
        kinds_more=by_kind[0]["kinds"] - len(by_kind) if by_kind else 0,
        failures=None if failures is None else [_failure(row) for row in failures],
        failures_more=_more(failures) if failures else (0, 0),
        usage=None if asked.usage is None else _usage(scope, asked.usage, colours),
        usage_is_by_day=scope.tenant != "" or _is_alone(asked.usage or []),
    )


def _counts(scope: Scope, span: TimeSpan | None, rows: list[Row] | None) -> dict[str, list[int]] | None:
    if span is None or rows is None:
        return None
    counts = {name: [0] * span.buckets for name in COUNTED}
    for row in rows:
        if scope.covers(_of(row)):
            for name in COUNTED:
                counts[name][row["bucket"]] += row[name]
    return counts


def _colours(scope: Scope, asked: ViewRequest) -> dict[str, int]:
    """Of tenants; of a tenant, or where there is only one, of its queues."""
    colours = colours_of(asked.named)
    tenants = colours.get("", {})
    if scope == ALL and len(tenants) != 1:
        return tenants
    return colours.get(scope.tenant or next(iter(tenants), ""), {})


def _backlog(
    scope: Scope, span: TimeSpan | None, rows: list[Row] | None, colours: dict[str, int]
) -> dict[str, list[int]] | None:
    """Open jobs by tenant; of a tenant, or where there is only one, by queue."""
    inside = [row for row in rows or [] if scope.covers(_of(row))]
    if span is None or not inside:
        return None
    is_by_tenant = scope == ALL and len({row["shown_tenant"] for row in inside}) > 1
    changes: dict[str, list[int]] = defaultdict(lambda: [0] * span.buckets)
    for row in inside:
        changes[row["shown_tenant" if is_by_tenant else "shown_queue"]][row["bucket"]] += row["change"]
    levels = {name: list(accumulate(change)) for name, change in changes.items()}
    names = sorted(levels, key=lambda name: (name == OTHERS, colours.get(name, len(colours)), name))
    return {name: levels[name] for name in names}


def _by_bucket(scope: Scope, span: TimeSpan | None, rows: list[Row] | None) -> list[Latency] | None:
    if span is None or rows is None:
        return None
    found = {row["bucket"]: _latency(row) for row in rows if _exactly(row) == scope}
    return [found.get(bucket, Latency()) for bucket in range(span.buckets)]


def _latency(row: Row) -> Latency:
    wait, run = (Quantiles(*(row[f"{what}_{name}"] for name in QUANTILES)) for what in ("wait", "run"))
    return Latency(wait, run, row.get("run_max"))


def _kind(row: Row) -> Kind:
    return Kind(row["kind"], row["deliveries"], row["failed"], _latency(row))


def _failure(row: Row) -> Failure:
    # The page is sent around: what a handler said may hold the password of a URL.
    samples = [Sample(s["tenant"], s["queue"], s["id"], s["at_ms"], redact(s["message"] or "")) for s in row["samples"]]
    names = [name for name in Failure.__struct_fields__ if name not in ("samples", "template")]
    return Failure(**{name: row[name] for name in names}, template=redact(row["template"]), samples=samples)


def _more(rows: list[Row]) -> tuple[int, int]:
    first = rows[0]
    return first["fingerprints"] - len(rows), first["all_failures"] - sum(row["failures"] for row in rows)


def _usage(scope: Scope, rows: list[Row], colours: dict[str, int]) -> list[Usage]:
    if scope.tenant or _is_alone(rows):
        mine = (row for row in rows if row["day"] and scope.tenant in ("", row["tenant"]))
        days = sorted(mine, key=lambda row: row["day"])
        return [_used(row, str(row["day"])) for row in days[-PAGE_DAYS_MAX:]]
    tenants = [_used(row, row["tenant"]) for row in rows if row["day"] is None]
    unnamed = len(colours)
    tenants.sort(key=lambda usage: (colours.get(usage.name, unnamed), -usage.run_ms, -usage.enqueued, usage.name))
    rest = tenants[PAGE_TENANTS_MAX:]
    if len(rest) < 2:  # one more line for one more tenant
        return tenants
    fields = Usage.__struct_fields__[1:]
    sums: Counter[str] = Counter()
    for usage in rest:
        sums.update({name: getattr(usage, name) for name in fields})
    return [*tenants[:PAGE_TENANTS_MAX], Usage(f"{len(rest):,} others", **{name: sums[name] for name in fields})]


def _is_alone(rows: list[Row]) -> bool:
    return len({row["tenant"] for row in rows}) == 1


def _used(row: Row, name: str) -> Usage:
    return Usage(name, **{field: row[field] or 0 for field in Usage.__struct_fields__[1:]})


def _of(row: Row) -> Scope:
    return Scope(row["shown_tenant"], row["shown_queue"])


def _exactly(row: Row) -> Scope:
    return Scope(row["shown_tenant"] or "", row["shown_queue"] or "")


def _is_of(row: Row, scope: Scope) -> bool:
    return (row.get("tenant", ""), row.get("queue", "")) == (scope.tenant, scope.queue)
