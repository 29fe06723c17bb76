"""Which tenants and queues get a view of their own, and how the time is cut into buckets."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from headrace.model.limits import PAGE_BUCKETS_MAX, PAGE_QUEUES_MAX, PAGE_TENANTS_MAX
from headrace.pipeline.report.model import ALL, Scope, TimeSpan
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
