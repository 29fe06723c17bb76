"""Options of the commands about jobs, and the selection of jobs by id or by filter."""

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import typer
from msgspec import Struct

from headrace.cli.bulk import BulkStep, NamedItem, StatusTally, batches, status_text
from headrace.cli.options import TENANT, AnyQueue, Tenant, Url
from headrace.inspect.job_ids import whole_id
from headrace.inspect.jobs import JobScan, ScannedJob
from headrace.inspect.lookup import look_at_each, queues_of
from headrace.inspect.search import read_filter
from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.model.limits import PAGE_MAX
from headrace.model.names import Queue
from headrace.model.results import Counts, Found
from headrace.stores.contract.store import Store

AnyState = Annotated[State | None, typer.Option("--state", help="Only jobs in this state.")]
Kind = Annotated[str | None, typer.Option("--kind", help="Only jobs of this kind.")]
Tag = Annotated[str | None, typer.Option("--tag", help="Only jobs with this tag.")]
OlderThan = Annotated[
    str | None, typer.Option("--older-than", metavar="TIME", help="Only jobs enqueued before: 30m, 2d, or an instant.")
]
NewerThan = Annotated[
    str | None, typer.Option("--newer-than", metavar="TIME", help="Only jobs enqueued since: 30m, 2d, or an instant.")
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Only jobs enqueued or ended since: 30m, 2d, or an instant."),
]
Everything = Annotated[bool, typer.Option("--all", help="Select all jobs.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Jobs to select; or select them by filter.")]
JobId = Annotated[str, typer.Argument(metavar="ID", help="Job to show.")]


class TargetJob(Struct, frozen=True):
    """A job to act on; `state` is the state in which a filter selected it, None for a named job."""

    id: str
    state: State | None


class BulkJobAnswer(Struct, frozen=True):
    """The status of one named job; `state` is its state before."""

    id: str
    queue: str | None
    status: str
    state: State | None


class JobOptions(Struct, frozen=True, kw_only=True):
    """The options that select jobs by id or by filter."""

    ids: Ids = None
    url: Url = None
    tenant: Tenant = TENANT
    queue: AnyQueue = None
    kind: Kind = None
    tag: Tag = None
    state: AnyState = None
    older_than: OlderThan = None
    everything: Everything = False


class JobSelection(JobOptions, frozen=True, kw_only=True):
    """The selected jobs of an action."""

    scanned_states: Sequence[State] = tuple(State)
    """The states that a filter scans."""
    named_states: frozenset[State] = frozenset(State)
    """The states of named jobs on which the action has an effect."""
    once: bool = False
    """Whether a filter selects a job in its liveliest state only, because the action affects all its records."""

    @property
    def is_named(self) -> bool:
        """Whether the jobs are named one by one."""
        return bool(self.ids)

    @property
    def _filters(self) -> dict[str, str]:
        """The filters that are set; a queue alone does not count, since it may come from the environment."""
        filters = {"kind": self.kind, "tag": self.tag, "state": self.state, "older than": self.older_than}
        return {name: str(value) for name, value in filters.items() if value is not None}

    def check(self, verb: str) -> None:
        """Refuse an empty or contradictory selection."""
        if self.ids and (self._filters or self.everything):
            raise Refused("bad_choice", f"{verb} takes ids or a filter, not both; leave one out")
        if not self.ids and not self._filters and not self.everything:
            raise Refused(
                "bad_choice",
                f"no jobs to {verb} were selected; give ids, or --kind, --tag, --state or --older-than, or --all",
            )

    def text(self) -> str:
        """The selection in words."""
        filters = ", ".join(f"{name} {value}" for name, value in self._filters.items())
        where = f"queue {self.queue}" if self.queue else "all queues"
        return f"{where} of tenant {self.tenant}{f' ({filters})' if filters else ''}"

    async def find(self, store: Store) -> list[NamedItem[TargetJob]]:
        """The named jobs in their queues; refuses an id in two queues before anything is done."""
        queues = await queues_of(store, self.tenant, self.queue)
        ids = list(dict.fromkeys([await whole_id(store, queues, id) for id in self.ids or ()]))
        places: dict[str, list[tuple[Queue, Found]]] = {id: [] for id in ids}
        for part in batches(ids):
            async for queue, answers in look_at_each(queues, partial(store.reads.find, ids=part)):
                for id, found in zip(part, answers, strict=True):
                    if found is not None:
                        places[id].append((queue, found))
        return [self._named(id, places[id]) for id in ids]

    def _named(self, id: str, places: Sequence[tuple[Queue, Found]]) -> NamedItem[TargetJob]:
        targets = [(queue, found) for queue, found in places if found.state in self.named_states]
        if len(targets) > 1:
            names = " and ".join(queue.full_name for queue, _ in targets)
            raise Refused("several_queues", f"job {id!r} is in the queues {names}; choose one with --queue")
        if targets:
            [(queue, found)] = targets
            return NamedItem(id, queue, TargetJob(id, None), found)
        return NamedItem(id, places[0][0], None, places[0][1]) if places else NamedItem(id)

    async def steps(self, store: Store, tally: StatusTally) -> AsyncIterator[BulkStep[TargetJob]]:
        """The jobs that match and existed at the beginning."""
        begun_at_ms = await store.now_ms()
        where = read_filter(begun_at_ms, kind=self.kind, tag=self.tag, older_than=self.older_than)
        queues = await queues_of(store, self.tenant, self.queue)
        async for queue, jobs in _scan(store, JobScan(store, queues, self.scanned_states), tally):
            selected = [job for job in jobs if where.matches(job) and job.body.enqueued_at_ms <= begun_at_ms]
            if self.once:
                selected = await _in_liveliest_state(store, selected)
            yield BulkStep(queue, [TargetJob(job.id, job.state) for job in selected], len(jobs))

    def answers(self, items: Sequence[NamedItem[TargetJob]], statuses: Mapping[str, str]) -> list[BulkJobAnswer]:
        """The status of each named job."""
        return [
            BulkJobAnswer(
                each.name,
                None if each.queue is None else each.queue.full_name,
                statuses[each.name],
                None if each.known is None else each.known.state,
            )
            for each in items
        ]

    def table(self, answers: list[Any], label: str | None) -> tuple[Sequence[str], list[tuple[object, ...]]]:
        """Columns and rows of the answers."""
        rows: list[tuple[object, ...]] = [
            (each.id, each.queue, each.state, status_text(each.status)) for each in answers
        ]
        return ("id", "queue", "was", label or "now"), rows


async def _scan(store: Store, scan: JobScan, tally: StatusTally) -> AsyncIterator[tuple[Queue, list[ScannedJob]]]:
    """Steps of a scan; leaves a state that grows faster than it is scanned."""
    partition, looks_max, looked = None, 0, 0
    while not scan.is_over:
        if partition != scan.partition:
            state, queue = partition = scan.partition
            looks_max, looked = 2 * _count(await store.queues.counts(queue), state) + PAGE_MAX, 0
        jobs = await scan.take()
        looked += len(jobs)
        tally.looked += len(jobs)
        if looked >= looks_max and scan.is_at(partition):
            tally.stopped_early = True
            scan.skip_partition()
        yield partition[1], jobs


def _count(counts: Counts, state: State) -> int:
    count: int = getattr(counts, state.value)
    return count


async def _in_liveliest_state(store: Store, jobs: Sequence[ScannedJob]) -> list[ScannedJob]:
    """The jobs without a livelier state; one of several dead letters of an id."""
    once = {job.id: job for job in jobs}
    if jobs and jobs[0].state is State.DEAD:
        found = await store.reads.find(jobs[0].queue, list(once))
        dead = {each.id for each in found if each is not None and each.state is State.DEAD}
        return [job for job in once.values() if job.id in dead]
    return [job for job in once.values() if job.found is not None and job.found.state is job.state]


async def foresee_state(_: Store, __: Queue, jobs: Sequence[TargetJob]) -> list[str]:
    """The statuses of a dry run: the states in which a filter selected the jobs, `found` for named ones."""
    return ["found" if job.state is None else job.state.value for job in jobs]
