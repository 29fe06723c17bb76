"""Reads the counts of watched queues for metrics, at most once a second however many programs scrape them."""

import asyncio
from collections.abc import Iterator, Sequence

from msgspec import Struct

from headrace.model.clock import monotonic_ms
from headrace.model.errors import BadConfig, HeadraceError
from headrace.model.limits import QUEUE_METRICS_AGE_MS, QUEUE_METRICS_MAX
from headrace.model.names import Queue, check_queue_name, check_tenant
from headrace.model.results import QueueOverview
from headrace.model.validate import bounded_repr
from headrace.stores.contract.store import Store


class Gauge(Struct, frozen=True):
    """A gauge of Prometheus: its name, its help text, the names of its labels, and a value for each set of labels."""

    name: str
    about: str
    labels: tuple[str, ...]
    values: tuple[tuple[tuple[str, ...], float], ...]


class QueueMetrics:
    """Gauges of some queues: jobs by state, the age of the oldest due job, and whether a queue is paused.

    A pattern is `queue` or `tenant/queue`; a `*` at its end stands for any rest: `mail`, `acme/*`, `acme/report-*`.
    At most `QUEUE_METRICS_MAX` (200) queues are read; further ones are left out.
    """

    def __init__(self, store: Store, patterns: Sequence[str], tenant: str) -> None:
        self._store = store
        self._patterns = [_pattern(text, tenant) for text in patterns]
        self._rows: list[QueueOverview] = []
        self._store_now_ms = 0
        self._is_up = False
        self._read_at_ms: int | None = None
        self._lock = asyncio.Lock()

    async def refresh(self) -> None:
        """Read the counts, unless that was done within the last second. Keeps the last ones while the store is away."""
        async with self._lock:
            now_ms = monotonic_ms()
            if self._read_at_ms is not None and now_ms < self._read_at_ms + QUEUE_METRICS_AGE_MS:
                return
            self._read_at_ms = now_ms
            try:
                self._store_now_ms, self._rows = await self._store.now_ms(), await self._read()
                self._is_up = True
            except HeadraceError:
                self._is_up = False

    async def _read(self) -> list[QueueOverview]:
        rows: dict[Queue, QueueOverview] = {}
        for tenant in dict.fromkeys(tenant for tenant, _ in self._patterns):
            names = [name for of, name in self._patterns if of == tenant and not name.endswith("*")]
            prefixes = [name[:-1] for of, name in self._patterns if of == tenant and name.endswith("*")]
            pages = []
            if names:
                pages.append(await self._store.queues.overview(tenant, names=names))
            for prefix in prefixes:
                limit = max(QUEUE_METRICS_MAX - len(rows), 1)
                pages.append(await self._store.queues.overview(tenant, prefix=prefix, limit=limit))
            rows |= {row.queue: row for page in pages for row in page.rows}
        return list(rows.values())[:QUEUE_METRICS_MAX]

    def gauges(self) -> Iterator[Gauge]:
        """The gauges as they were read last."""
        place = ("tenant", "queue")
        yield Gauge("headrace_store_up", "Whether the store answered.", (), (((), float(self._is_up)),))
        yield Gauge(
            "headrace_queue_jobs",
            "Jobs of a queue by state.",
            (*place, "state"),
            tuple(((*_place(row), state), float(number)) for row in self._rows for state, number in _states(row)),
        )
        yield Gauge(
            "headrace_queue_oldest_due_seconds",
            "Age of the oldest due job; 0 if no job is due.",
            place,
            tuple((_place(row), self._age_s(row.counts.oldest_due_ms)) for row in self._rows),
        )
        yield Gauge(
            "headrace_queue_paused",
            "Whether the queue is paused.",
            place,
            tuple((_place(row), float(row.paused)) for row in self._rows),
        )

    def _age_s(self, due_at_ms: int | None) -> float:
        return 0.0 if due_at_ms is None else max(self._store_now_ms - due_at_ms, 0) / 1_000


def _place(row: QueueOverview) -> tuple[str, str]:
    return row.queue.tenant, row.queue.full_name


def _states(row: QueueOverview) -> tuple[tuple[str, int], ...]:
    counts = row.counts
    ready = counts.waiting - counts.later
    return (
        ("ready", ready),
        ("later", counts.later),
        ("blocked", counts.blocked),
        ("active", counts.active),
        ("dead", counts.dead),
    )


def _pattern(text: str, tenant: str) -> tuple[str, str]:
    """The tenant and the name or prefix of a pattern."""
    of, slash, name = text.rpartition("/")
    rest = name.removesuffix("*")
    if rest:
        check_queue_name(rest.removesuffix(".fail"))
    elif not name:
        raise BadConfig(
            f"{bounded_repr(text)} names no queue for metrics; use queue, tenant/queue, or a prefix such as acme/mail*"
        )
    if slash:
        check_tenant(of)
    return (of if slash else tenant), name
