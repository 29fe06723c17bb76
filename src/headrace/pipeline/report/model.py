"""What the report shows, as plain values: collected from the tables once, drawn from here."""

from collections.abc import Sequence

from msgspec import Struct, field

from headrace.model.names import FAIL_KIND

OUTCOMES = ("done", "retried", "stalled", "dead")
"""Ends of deliveries that are throughput; those that were handed back or cancelled are neither work nor failure."""
COUNTED = (*OUTCOMES, "expired")
"""Counts of each bucket; jobs that expired are among the dead, and died without a delivery."""
COLOURS = 8
"""That the style sheet tells apart."""
QUANTILES = ("p50", "p95", "p99")
WRITTEN_BY = {"stats": "stats --once", "errors": "errors", "usage": "usage"}
"""The tables that the report is drawn from, and the commands that write them."""
_INTERNAL = f"{FAIL_KIND.partition('.')[0]}."


class Scope(Struct, frozen=True, order=True):
    """What a view is about: everything, a tenant, or one of its queues."""

    tenant: str = ""
    queue: str = ""

    @property
    def name(self) -> str:
        """Names it in the page's address: names of tenants and queues hold no slash."""
        return "/".join(part for part in (self.tenant, self.queue) if part)

    def covers(self, other: "Scope") -> bool:
        """True if the other is a part of this one, or the same."""
        return self.tenant in ("", other.tenant) and self.queue in ("", other.queue)


ALL = Scope()


class TimeSpan(Struct, frozen=True):
    """The time that the report is about, cut into equal buckets, each of one or more windows of statistics."""

    start_ms: int
    bucket_ms: int
    buckets: int
    window_ms: int

    @property
    def end_ms(self) -> int:
        """Where the last bucket ends."""
        return self.start_ms + self.buckets * self.bucket_ms

    def starts(self) -> list[int]:
        """Where each bucket begins."""
        return list(range(self.start_ms, self.end_ms, self.bucket_ms))


class Quantiles(Struct, frozen=True):
    """Percentiles of waiting or running in ms; None where nothing ended."""

    p50: int | None = None
    p95: int | None = None
    p99: int | None = None


class Latency(Struct, frozen=True):
    """How long deliveries waited and ran, the longest run included."""

    wait: Quantiles = Quantiles()
    run: Quantiles = Quantiles()
    run_max: int | None = None


class Kind(Struct, frozen=True):
    """What the deliveries of one kind were like."""

    kind: str
    deliveries: int
    failed: int
    latency: Latency

    @property
    def is_internal(self) -> bool:
        """True of a kind that no app registers: Headrace enqueues it on its own queues."""
        return self.kind.startswith(_INTERNAL)


class Sample(Struct, frozen=True):
    """A job that failed."""

    tenant: str
    queue: str
    id: str
    at_ms: int
    message: str


class Failure(Struct, frozen=True):
    """Failures of one fingerprint."""

    fingerprint: str
    error_class: str
    template: str
    kinds: Sequence[str]
    queues: Sequence[str]
    tenants: Sequence[str]
    failures: int
    deaths: int
    jobs: int
    first_ms: int
    last_ms: int
    samples: Sequence[Sample] = ()


class Usage(Struct, frozen=True):
    """What a tenant used, or all of them on one day."""

    name: str
    enqueued: int = 0
    done: int = 0
    dead: int = 0
    deliveries: int = 0
    run_ms: int = 0
    payload_bytes: int = 0


class View(Struct, frozen=True):
    """Everything that is shown of a scope. What is None was in no table; lists have a place for each bucket."""

    scope: Scope
    counts: dict[str, list[int]] | None = None
    """By the names of `COUNTED`."""
    backlog: dict[str, list[int]] | None = None
    """By tenant or queue in the order of the page; open jobs at the end of each bucket."""
    colours: dict[str, int] = {}
    """Of tenants and queues that are named: each has the same one in every chart and list."""
    unknown: int = 0
    """Queues of which nobody knows how many jobs are open; `backlog` is without them."""
    latency: list[Latency] | None = None
    overall: Latency | None = None
    kinds: list[Kind] | None = None
    kinds_more: int = 0
    failures: list[Failure] | None = None
    failures_more: tuple[int, int] = (0, 0)
    """Fingerprints that are not shown, and their failures."""
    usage: list[Usage] | None = None
    """By tenant; of a single tenant by day."""
    usage_is_by_day: bool = False

    def look(self, name: str) -> str:
        """The class of the style sheet for a tenant or a queue; others share one."""
        colour = self.colours.get(name, COLOURS)
        return f"s{colour}" if colour < COLOURS else "rest"


class Numbers(Struct, frozen=True):
    """The report's content. `part` names what was asked for, if it was not everything."""

    views: list[View]
    span: TimeSpan | None
    made_at_ms: int
    part: str = ""
    lacking: list[str] = field(default_factory=list)
