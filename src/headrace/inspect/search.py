"""Searches jobs of all states and queues by text and fields, within a bound."""

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from headrace.inspect.jobs import JobRow, JobScan, ScannedJob, states_of
from headrace.inspect.lookup import queues_of
from headrace.model.job import State
from headrace.model.limits import PAGE_MAX
from headrace.model.times import read_past_ms
from headrace.stores.contract.store import Store

Advance = Callable[[int], None]
"""Called with the number of jobs or events of a step."""


class JobFilter(Struct, frozen=True, kw_only=True):
    """Selects jobs; None matches all. Times are `enqueued_after_ms <= enqueued_at_ms <= enqueued_before_ms`."""

    text: str | None = None
    """Somewhere in id, kind, tag, error or payload, in any case."""
    kind: str | None = None
    tag: str | None = None
    id_prefix: str | None = None
    payload: str | None = None
    """Somewhere in the payload; a finished job has none."""
    enqueued_after_ms: int | None = None
    enqueued_before_ms: int | None = None

    def matches(self, job: ScannedJob) -> bool:
        """Whether the job is selected."""
        body = job.body
        return (
            (self.kind is None or self.kind == body.kind)
            and (self.tag is None or self.tag == body.tag)
            and (self.id_prefix is None or body.id.startswith(self.id_prefix))
            and (self.enqueued_after_ms is None or body.enqueued_at_ms >= self.enqueued_after_ms)
            and (self.enqueued_before_ms is None or body.enqueued_at_ms <= self.enqueued_before_ms)
            and (self.payload is None or self.payload in _payload_text(job))
            and (self.text is None or self._mentions_text(job))
        )

    def _mentions_text(self, job: ScannedJob) -> bool:
        wanted, body, error = (self.text or "").casefold(), job.body, job.error
        texts = [body.id, body.kind, body.tag or ""]
        texts += [] if error is None else [error.cls, error.message]
        return any(wanted in text.casefold() for text in texts) or wanted in _payload_text(job).casefold()


def read_filter(
    now_ms: int,
    *,
    older_than: str | None = None,
    newer_than: str | None = None,
    text: str | None = None,
    kind: str | None = None,
    tag: str | None = None,
    id_prefix: str | None = None,
    payload: str | None = None,
) -> JobFilter:
    """A filter with times as text ("2h", an instant); raises `Refused` for other texts."""
    return JobFilter(
        text=text,
        kind=kind,
        tag=tag,
        id_prefix=id_prefix,
        payload=payload,
        enqueued_after_ms=None if newer_than is None else read_past_ms("newer_than", newer_than, now_ms),
        enqueued_before_ms=None if older_than is None else read_past_ms("older_than", older_than, now_ms),
    )


class SearchResult(Struct, frozen=True):
    """The matching jobs, and the extent of the search."""

    jobs: list[JobRow]
    looked: int
    """Jobs that were searched."""
    stopped: Literal["limit", "scan_max"] | None
    """The bound that ended the search early, if any."""


async def search_jobs(
    store: Store,
    tenant: str,
    queue: str | None,
    state: State | None,
    where: JobFilter,
    *,
    limit: int,
    scan_max: int,
    advance: Advance | None = None,
) -> SearchResult:
    """The first `limit` matching jobs of a queue or of all queues of a tenant, among `scan_max`."""
    scan = JobScan(store, await queues_of(store, tenant, queue), states_of(state))
    jobs: list[JobRow] = []
    looked = 0
    while not scan.is_over:
        step = await scan.take(max(min(PAGE_MAX, scan_max - looked), 1))
        if step and looked == scan_max:
            return SearchResult(jobs, looked, "scan_max")
        for offset, job in enumerate(step):
            if where.matches(job):
                if len(jobs) == limit:
                    return SearchResult(jobs, looked + offset, "limit")
                jobs.append(job.row())
        looked += len(step)
        if advance is not None:
            advance(len(step))
    return SearchResult(jobs, looked, None)


def _payload_text(job: ScannedJob) -> str:
    return "" if job.record is None else job.record.payload.decode(errors="replace")
