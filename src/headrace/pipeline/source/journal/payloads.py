"""Adds payloads and results to journal events: what they do not carry is looked up in the store when they are read."""

from asyncio import Runner
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headrace.model.finished import FinishedJob
from headrace.model.job import Record
from headrace.model.limits import BATCH_MAX, SCAN_PART_BYTES
from headrace.model.names import Queue
from headrace.model.results import Found
from headrace.pipeline.source.arrow import gathered, texts
from headrace.pipeline.source.filters import Filters
from headrace.pipeline.source.schema import JOURNAL_BODIES, JOURNAL_CARRIED, Table
from headrace.stores.contract.store import Store

LIVE, BLOCKED_JOB = "live", "blocked_job"
"""The job that waits or runs (or its dead letter, if it has died since), and the blocked job behind an active one."""
_WROTE = frozenset({"enqueued", "updated", "merged", "unblocked", "replayed"})
_GONE = frozenset({"done", "cancelled", "removed", "purged"})


class Holder(Struct, frozen=True, gc=False):
    """Where to look: first the dead letters of these numbers, then one of `LIVE` and `BLOCKED_JOB`."""

    dead_letters: tuple[int, ...] = ()
    then: str | None = None


class PayloadHolder(Struct, frozen=True, gc=False):
    """What has to be known of an event."""

    event: str
    key: tuple[str, str, str]
    """Tenant, queue and id."""
    reason: str | None
    dead_letter: int | None


class _Story:
    """What is known of an id behind an event, while its events are gone through from the last to the first."""

    __slots__ = ("blocked_job", "finished_job_is_own", "held", "replayed")

    def __init__(self) -> None:
        self.held: Holder | None = Holder((), LIVE)
        self.blocked_job: Holder | None = Holder((), BLOCKED_JOB)
        self.replayed: dict[int, Holder | None] = {}
        self.finished_job_is_own = True


def holders(events: Sequence[PayloadHolder]) -> tuple[list[Holder | None], list[bool]]:
    """For each event, in the order of the journal: where its payload may be, None when it can be nowhere; and whether
    a finished job that the store holds may be its own.

    The store holds one payload of a job. An event that a later one has replaced, or whose job has ended since, has none
    left: what stands there under the same id is another's.
    """
    stories: dict[tuple[str, str, str], _Story] = {}
    found: list[Holder | None] = []
    finished_jobs: list[bool] = []
    for told in reversed(events):
        story = stories.get(told.key)
        if story is None:
            story = stories[told.key] = _Story()
        finished_jobs.append(told.event == "done" and story.finished_job_is_own)
        found.append(_taken(story, told))
    return found[::-1], finished_jobs[::-1]


def _taken(story: _Story, told: PayloadHolder) -> Holder | None:
    """Where the payload of the event is; the story is then as it was before it."""
    held = story.held
    match told.event:
        case "dead":
            number = told.dead_letter or 0
            after = story.replayed.pop(number, held)
            story.held = Holder((number,)) if after is None else Holder((number, *after.dead_letters), after.then)
            return story.held
        case "blocked":
            held, story.blocked_job = story.blocked_job, None
            return held
        case "cancelled" if told.reason == "blocked":
            story.blocked_job = None
        case "purged" if told.dead_letter is not None:
            pass
        case event if event in _GONE:
            story.held, story.finished_job_is_own = None, False
            # The blocked job of a job that is over goes its own way, unless everything was removed.
            if event == "removed":
                story.blocked_job = None
        case event if event in _WROTE:
            if event == "replayed":
                story.replayed[told.dead_letter or 0] = held
            story.held = None
            # What a freed blocked job holds, the enqueue that was blocked has brought; any other blocked job was of
            # another life.
            story.blocked_job = held if event == "unblocked" else None
            return held
    return None


_NAMES = JOURNAL_BODIES.names
_NEEDED = ("tenant", "queue", "happened_at", "event", "id", "enqueued_at", "reason", "dead_letter", "payload_bytes")
_ROW = "row"


def asks_for_bodies(table: Table) -> bool:
    """Whether a table has columns that only the store can fill."""
    return any(name in table.names for name in _NAMES)


def events_for(table: Table) -> Table:
    """The columns of the journal that are read to fill a table."""
    own = [name for name in table.names if name != "result"]
    return JOURNAL_CARRIED.pick([*own, *(name for name in _NEEDED if name not in own)])


class Bodies:
    """Fills the columns of a table that the events do not have, for the rows that fulfil the filters."""

    def __init__(
        self, runner: Runner, store: Store, queues: Mapping[tuple[str, str], Queue], table: Table, filters: Filters
    ) -> None:
        self._runner = runner
        self._store = store
        self._queues = queues
        self._table = table
        self._late, self._early = filters.about(_NAMES)

    def batches(self, events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The events, which have the columns of `events_for`, with the columns of the table."""
        yield from gathered(self._filled(events))

    def _filled(self, events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        kept = self._early.rows(events.append_column(_ROW, pa.array(np.arange(events.num_rows))))
        if kept.num_rows == 0:
            return
        wanted = _Wanted(events, self._table)
        for rows in wanted.parts(kept.column(_ROW).to_pylist()):
            found = self._runner.run(self._find(wanted.ids(rows)))
            yield self._late.rows(self._built(events, wanted, rows, found))

    def _built(self, events: pa.RecordBatch, wanted: "_Wanted", rows: list[int], found: "_Finds") -> pa.RecordBatch:
        part = events.take(pa.array(rows, pa.int64()))
        made = {
            "payload": lambda: pc.coalesce(part.column("payload"), texts([wanted.payload(row, found) for row in rows])),
            "result": lambda: texts([wanted.result(row, found) for row in rows]),
        }
        arrays = [made[name]() if name in made else part.column(name) for name in self._table.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._table.arrow)

    async def _find(self, ids: Mapping[tuple[str, str], list[str]]) -> "_Finds":
        found: _Finds = {}
        for name, held in ids.items():
            answers = await self._store.reads.find(self._queues[name], held)
            found |= {(*name, id): each for id, each in zip(held, answers, strict=True) if each is not None}
        return found


_Finds = dict[tuple[str, str, str], Found]


class _Wanted:
    """What the events of a batch want from the store for the columns of a table: nothing that they carry themselves."""

    def __init__(self, events: pa.RecordBatch, table: Table) -> None:
        rows = {name: events.column(name).to_pylist() for name in ("tenant", "queue", "event", "id", "reason")}
        self._dead_letters = events.column("dead_letter").to_pylist()
        self._sizes = events.column("payload_bytes").to_pylist()
        self._at_ms, self._enqueued_at_ms = (
            [None if each is None else each // 1_000 for each in events.column(name).cast(pa.int64()).to_pylist()]
            for name in ("happened_at", "enqueued_at")
        )
        self._keys = [
            (tenant, queue, id or "")
            for tenant, queue, id in zip(rows["tenant"], rows["queue"], rows["id"], strict=True)
        ]
        held, may_end = holders(
            [
                PayloadHolder(event, key, reason, dead_letter)
                for event, key, reason, dead_letter in zip(
                    rows["event"], self._keys, rows["reason"], self._dead_letters, strict=True
                )
            ]
        )
        lacking = pc.is_null(events.column("payload")).to_pylist() if "payload" in table.names else [False] * len(held)
        self._holders = [holder if lacks else None for holder, lacks in zip(held, lacking, strict=True)]
        self._may_end = may_end if "result" in table.names else [False] * len(may_end)

    def parts(self, rows: Sequence[int]) -> Iterator[list[int]]:
        """The rows in parts that want no more of the store than one call may carry."""
        part: list[int] = []
        asked = size = 0
        for row in rows:
            if self._holders[row] is not None or self._may_end[row]:
                own = self._sizes[row] or 0
                if asked == BATCH_MAX or (part and size + own > SCAN_PART_BYTES):
                    yield part
                    part, asked, size = [], 0, 0
                asked, size = asked + 1, size + own
            part.append(row)
        if part:
            yield part

    def ids(self, rows: Sequence[int]) -> dict[tuple[str, str], list[str]]:
        """The ids to look up, by tenant and queue; each once."""
        ids: dict[tuple[str, str], dict[str, None]] = {}
        for row in rows:
            if self._holders[row] is not None or self._may_end[row]:
                tenant, queue, id = self._keys[row]
                ids.setdefault((tenant, queue), {})[id] = None
        return {name: list(held) for name, held in ids.items()}

    def payload(self, row: int, found: _Finds) -> bytes | None:
        holder, known = self._holders[row], found.get(self._keys[row])
        if holder is None or known is None:
            return None
        at_ms = self._at_ms[row] or 0
        for record in _candidates(holder, known, at_ms):
            if len(record.payload) == self._sizes[row]:
                return record.payload
        return None

    def result(self, row: int, found: _Finds) -> bytes | None:
        known = found.get(self._keys[row])
        if not self._may_end[row] or known is None or known.finished_job is None:
            return None
        is_own = is_of(known.finished_job, self._enqueued_at_ms[row] or 0, self._at_ms[row] or 0)
        return known.finished_job.result if is_own else None


def _candidates(holder: Holder, found: Found, at_ms: int) -> Iterator[Record]:
    """The records that may be what an event has left, the likeliest first."""
    yield from (each.record for each in found.dead_letters if each.key.number in holder.dead_letters)
    if holder.then == BLOCKED_JOB and found.blocked_job is not None:
        yield found.blocked_job
    if holder.then == LIVE:
        # A job that began after the event is another one. One that died after it left a dead letter, its first.
        if not holder.dead_letters:
            died = [each for each in found.dead_letters if each.record.enqueued_at_ms <= at_ms < each.died_at_ms]
            yield from (each.record for each in sorted(died, key=lambda each: each.key))
        if found.record is not None and found.record.enqueued_at_ms <= at_ms:
            yield found.record


def is_of(finished_job: FinishedJob, enqueued_at_ms: int, at_ms: int) -> bool:
    """Whether a finished job is what an event left, and not of a later run of the same id. The journal's clock never
    goes back while others may, so a finished job can be a little older than its event, and never younger."""
    return (
        finished_job.state == "done"
        and finished_job.enqueued_at_ms == enqueued_at_ms
        and finished_job.ended_at_ms <= at_ms
    )
