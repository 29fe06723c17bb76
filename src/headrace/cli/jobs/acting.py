"""Does something to many jobs: by ids, or by filter in bounded steps that end although new jobs keep coming."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Literal

from msgspec import Struct

from headrace.cli.bulk import StepTally, batches, telling
from headrace.cli.job_ids import whole_id
from headrace.cli.job_scan import JobScan, Seen
from headrace.cli.jobs.filters import JobFilter
from headrace.cli.output import Advance
from headrace.cli.queue_lookup import look_at_each, queues_of
from headrace.model.errors import Refused
from headrace.model.job import State
from headrace.model.limits import PAGE_MAX
from headrace.model.names import Queue
from headrace.model.results import Counts, Found
from headrace.stores.contract.store import Store

Apply = Callable[[Store, Queue, State | None, Sequence[str]], Awaitable[list[str]]]
"""Does it to jobs of a queue, seen in a state if by filter, and gives a status for each."""


class JobAction(Struct, frozen=True):
    """Something that can be done to jobs."""

    verb: Literal["cancel", "remove"]
    apply: Apply
    concerns: frozenset[State]
    """The states of jobs to which it can be done at all."""
    liveliest: bool
    """Whether a job is only meant in its liveliest state, because the deed reaches all of its records."""


class JobAnswer(Struct, frozen=True):
    """What became of one job that was named."""

    id: str
    queue: str | None
    status: str
    state: State | None
    """How it stood before."""


async def by_ids(
    store: Store, tenant: str, name: str | None, ids: Sequence[str], deed: JobAction, *, dry_run: bool
) -> list[JobAnswer]:
    """Do it to the jobs that are named, wherever they are; refuses, before anything is done, an id in two queues."""
    queues = await queues_of(store, tenant, name)
    ids = list(dict.fromkeys([await whole_id(store, queues, id) for id in ids]))
    places: dict[str, list[tuple[Queue, Found]]] = {id: [] for id in ids}
    for part in batches(ids):
        async for queue, answers in look_at_each(queues, partial(store.reads.find, ids=part)):
            for id, found in zip(part, answers, strict=True):
                if found is not None:
                    places[id].append((queue, found))
    meant = {id: _place(id, known, deed) for id, known in places.items()}
    statuses: dict[str, str] = dict.fromkeys(ids, "not_found")
    tally = StepTally()
    with telling(tally):
        for queue in dict.fromkeys(place[0] for place in meant.values() if place is not None):
            own = [id for id, place in meant.items() if place is not None and place[0] == queue]
            for part in batches(own):
                told = ["found"] * len(part) if dry_run else await deed.apply(store, queue, None, part)
                statuses.update(zip(part, told, strict=True))
                tally.add(told)
    return [_answer(id, meant[id] or next(iter(places[id]), None), statuses[id]) for id in ids]


async def by_filter(
    store: Store,
    tenant: str,
    name: str | None,
    states: Sequence[State],
    where: JobFilter,
    deed: JobAction,
    *,
    dry_run: bool,
    advance: Advance,
) -> StepTally:
    """Do it to the jobs that match and were there at the beginning."""
    tally = StepTally()
    queues = await queues_of(store, tenant, name)
    begun_at_ms = await store.now_ms()
    with telling(tally):
        async for part in _parts(store, JobScan(store, queues, states), tally):
            meant = [seen for seen in part if where.matches(seen) and seen.body.enqueued_at_ms <= begun_at_ms]
            if deed.liveliest:
                meant = await _liveliest(store, meant)
            if meant:
                state, queue, ids = meant[0].state, meant[0].queue, [seen.id for seen in meant]
                told = [state.value] * len(ids) if dry_run else await deed.apply(store, queue, state, ids)
                tally.add(told)
            advance(len(part))
    return tally


async def _parts(store: Store, walk: JobScan, tally: StepTally) -> AsyncIterator[list[Seen]]:
    """Steps of a walk; a state that grows faster than it is walked through is left when enough was seen of it."""
    station, most, looked = None, 0, 0
    while not walk.over:
        if station != walk.station:
            state, queue = station = walk.station
            most, looked = 2 * _count(await store.queues.counts(queue), state) + PAGE_MAX, 0
        part = await walk.take()
        looked += len(part)
        tally.looked += len(part)
        if looked >= most and walk.stands_at(station):
            tally.stopped_early = True
            walk.skip_station()
        yield part


def _count(counts: Counts, state: State) -> int:
    count: int = getattr(counts, state.value)
    return count


async def _liveliest(store: Store, rows: Sequence[Seen]) -> list[Seen]:
    """Those that stand in no livelier state; of several dead letters of an id, one."""
    once = {seen.id: seen for seen in rows}
    if rows and rows[0].state is State.DEAD:
        found = await store.reads.find(rows[0].queue, list(once))
        dead = {each.id for each in found if each is not None and each.state is State.DEAD}
        return [seen for seen in once.values() if seen.id in dead]
    return [seen for seen in once.values() if seen.found is not None and seen.found.state is seen.state]


def _place(id: str, known: Sequence[tuple[Queue, Found]], deed: JobAction) -> tuple[Queue, Found] | None:
    meant = [(queue, found) for queue, found in known if found.state in deed.concerns]
    if len(meant) > 1:
        names = " and ".join(queue.full_name for queue, _ in meant)
        raise Refused("several_queues", f"job {id!r} is in the queues {names}; say which with --queue")
    return meant[0] if meant else None


def _answer(id: str, place: tuple[Queue, Found] | None, status: str) -> JobAnswer:
    if place is None:
        return JobAnswer(id, None, status, None)
    return JobAnswer(id, place[0].full_name, status, place[1].state)
