"""Shows a job with everything that the store and its journal hold of it."""

from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from headrace.inspect.job_ids import complete_id, find_job, whole_id
from headrace.inspect.lookup import NAMES_SHOWN, queues_of
from headrace.inspect.search import Advance
from headrace.inspect.timeline import Timeline, TimelineView, first_enqueue_ms, read_timeline
from headrace.inspect.views import (
    DeadLetterRow,
    FinishedJobView,
    LeaseView,
    PolicySetting,
    RecordView,
    dead_letter_row,
    finished_job_view,
    lease_view,
    policy_view,
    record_view,
)
from headrace.model.job import State
from headrace.model.names import Queue
from headrace.model.policy import QueueConfig
from headrace.model.results import Found
from headrace.stores.contract.store import Store


class JobView(Struct, frozen=True, kw_only=True):
    """A job with everything around it. A job that only the journal remembers has no state and no record."""

    found: Literal[True] = True
    tenant: str
    queue: str
    shard: int
    id: str
    state: State | None
    record: RecordView | UnsetType | None = UNSET
    policy: dict[str, PolicySetting] | UnsetType | None = UNSET
    lease: LeaseView | UnsetType | None = UNSET
    blocked_job: RecordView | UnsetType | None = UNSET
    finished_job: FinishedJobView | UnsetType | None = UNSET
    dead_letters: list[DeadLetterRow] | UnsetType = UNSET
    why: str | None
    """Why the job waits."""
    life: TimelineView


class JobDetails(Struct, frozen=True):
    """A job with everything around it; `found` is None for a job that only the journal remembers."""

    id: str
    queue: Queue
    found: Found | None
    why: str | None
    config: QueueConfig
    timeline: Timeline
    now_ms: int

    def view(self, *, payload: bool = True) -> JobView:
        """The JSON of the job, with or without payloads and results."""
        found = self.found
        bare = JobView(
            tenant=self.queue.tenant,
            queue=self.queue.full_name,
            shard=self.queue.index_of(self.id),
            id=self.id,
            state=None,
            why=self.why,
            life=self.timeline.view(),
        )
        if found is None:
            return bare
        record, blocked, finished = found.record, found.blocked_job, found.finished_job
        return JobView(
            tenant=bare.tenant,
            queue=bare.queue,
            shard=bare.shard,
            id=found.id,
            state=found.state,
            record=None if record is None else record_view(record, payload=payload),
            policy=None if record is None else policy_view(record.policy, self.config),
            lease=lease_view(found),
            blocked_job=None if blocked is None else record_view(blocked, payload=payload),
            finished_job=None if finished is None else finished_job_view(finished, result=payload),
            dead_letters=[dead_letter_row(self.queue, each, payload=payload) for each in found.dead_letters],
            why=bare.why,
            life=bare.life,
        )


class UnknownJob(Struct, frozen=True, kw_only=True):
    """An unknown job, and where it was looked for."""

    id: str
    found: Literal[False] = False
    queues: list[str]
    events_looked: int | None = None
    """Events of the journal that were read; None if the journal was skipped."""
    stopped_early: bool = False
    """Whether the journals hold more events than were read."""

    def text(self, tenant: str) -> str:
        """A sentence about where the job was looked for."""
        match self.queues:
            case []:
                return f"job {self.id!r} is not known: tenant {tenant!r} has no queues yet"
            case [queue]:
                where = f"queue {queue!r} of tenant {tenant!r}"
            case several:
                more = f" and {len(several) - NAMES_SHOWN:,} more" if len(several) > NAMES_SHOWN else ""
                names = f"{', '.join(several[:NAMES_SHOWN])}{more}"
                where = f"the {len(several):,} queues of tenant {tenant!r} ({names})"
        if self.events_looked is None:
            return f"job {self.id!r} is not known; looked in {where}"
        events = f"{self.events_looked:,} {'event' if self.events_looked == 1 else 'events'}"
        return f"job {self.id!r} is not known; looked in {where} and at {events} of the journal"


async def show_job(
    store: Store, tenant: str, queue: str | None, id: str, *, scan_max: int, advance: Advance | None = None
) -> JobDetails | UnknownJob:
    """The job of this id, else the only job whose id begins with it."""
    queues = await queues_of(store, tenant, queue)
    id = await whole_id(store, queues, id)
    job = await _show(store, queues, id, scan_max, advance)
    if isinstance(job, UnknownJob) and (whole := await complete_id(store, queues, id)) is not None:
        return await _show(store, queues, whole, scan_max, advance)
    return job


async def _show(
    store: Store, queues: Sequence[Queue], id: str, scan_max: int, advance: Advance | None
) -> JobDetails | UnknownJob:
    """The job from the queue that has it, else from the first queue whose journal has."""
    now_ms = await store.now_ms()
    located = await find_job(store, queues, id)
    if located is not None:
        queue, found = located
        since_ms, shard = first_enqueue_ms(found), queue.shard_of(id)
        timeline = await read_timeline(store, shard, id, since_ms=since_ms, scan_max=scan_max, advance=advance)
        config = await store.queues.configuration(queue)
        why = await _why_it_waits(store, queue, found, config, now_ms)
        return JobDetails(id, queue, found, why, config, timeline, now_ms)
    looked, stopped_early = 0, False
    for queue in queues:
        left, shard = scan_max - looked, queue.shard_of(id)
        timeline = await read_timeline(store, shard, id, since_ms=None, scan_max=left, advance=advance)
        if timeline.events:
            return JobDetails(id, queue, None, None, await store.queues.configuration(queue), timeline, now_ms)
        looked += timeline.looked
        stopped_early = stopped_early or timeline.begins == "not_reached"
    names = [queue.full_name for queue in queues]
    return UnknownJob(id=id, queues=names, events_looked=looked, stopped_early=stopped_early)


async def _why_it_waits(store: Store, queue: Queue, found: Found, config: QueueConfig, now_ms: int) -> str | None:
    """Why a job waits; if it waits for a worker, also whether its queue has one."""
    if found.state is not State.WAITING or found.record is None or found.record.run_at_ms > now_ms or config.paused:
        return found.why
    if await store.reads.workers(queue):
        return found.why
    return f"{found.why}; none has claimed from this queue within a day"
