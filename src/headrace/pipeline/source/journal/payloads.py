"""Adds payloads and results to journal events, looked up in the store if the events do not carry them."""

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
from headrace.pipeline.source.arrow import coalesce, texts
from headrace.pipeline.source.filters import Filters
from headrace.pipeline.source.schema import JOURNAL_CARRIED, JOURNAL_PAYLOADS, Table
from headrace.stores.contract.store import Store

LIVE, BLOCKED_JOB = "live", "blocked_job"
"""The job that waits or runs (or its dead letter, if it has died since), and the blocked job behind an active one."""
_WROTE = frozenset({"enqueued", "updated", "merged", "unblocked", "replayed"})
_GONE = frozenset({"done", "cancelled", "removed", "purged"})
_NAMES = JOURNAL_PAYLOADS.names
_NEEDED = ("tenant", "queue", "happened_at", "event", "id", "enqueued_at", "reason", "dead_letter", "payload_bytes")
_ROW = "row"
_Finds = dict[tuple[str, str, str], Found]


class PayloadSource(Struct, frozen=True, gc=False):
    """Where a payload may be: in the dead letters of these numbers, then in `LIVE` or `BLOCKED_JOB`."""

    dead_letters: tuple[int, ...] = ()
    then: str | None = None


class PayloadEvent(Struct, frozen=True, gc=False):
    """The fields of an event that locate its payload."""

    event: str
    key: tuple[str, str, str]
    """Tenant, queue and id."""
    reason: str | None
    dead_letter: int | None


class _IdHistory:
    """The state of an id after an event, while its events are scanned from the last to the first."""

    __slots__ = ("blocked_job", "current", "owns_finished_job", "replayed")

    def __init__(self) -> None:
        self.current: PayloadSource | None = PayloadSource((), LIVE)
        self.blocked_job: PayloadSource | None = PayloadSource((), BLOCKED_JOB)
        self.replayed: dict[int, PayloadSource | None] = {}
        self.owns_finished_job = True


def payload_sources(events: Sequence[PayloadEvent]) -> tuple[list[PayloadSource | None], list[bool]]:
    """For each event in journal order: where its payload may be, None for nowhere; and whether a finished job in the
    store may belong to it.

    The store holds one payload of a job. The payload of an event that was replaced, or whose job has ended since, is
    gone: a payload under the same id belongs to a later event.
    """
    histories: dict[tuple[str, str, str], _IdHistory] = {}
    found: list[PayloadSource | None] = []
    finished_jobs: list[bool] = []
    for each in reversed(events):
        history = histories.get(each.key)
        if history is None:
            history = histories[each.key] = _IdHistory()
        finished_jobs.append(each.event == "done" and history.owns_finished_job)
        found.append(_source_of(history, each))
    return found[::-1], finished_jobs[::-1]


def _source_of(history: _IdHistory, each: PayloadEvent) -> PayloadSource | None:
    """Where the payload of the event is; moves the history back before the event."""
    source = history.current
    match each.event:
        case "dead":
            number = each.dead_letter or 0
            after = history.replayed.pop(number, source)
            history.current = (
                PayloadSource((number,)) if after is None else PayloadSource((number, *after.dead_letters), after.then)
            )
            return history.current
        case "blocked":
            source, history.blocked_job = history.blocked_job, None
            return source
        case "cancelled" if each.reason == "blocked":
            history.blocked_job = None
        case "purged" if each.dead_letter is not None:
            pass
        case event if event in _GONE:
            history.current, history.owns_finished_job = None, False
            # The blocked job outlives its active one, unless everything was removed.
            if event == "removed":
                history.blocked_job = None
        case event if event in _WROTE:
            if event == "replayed":
                history.replayed[each.dead_letter or 0] = source
            history.current = None
            # An unblocked job has the payload of the blocked enqueue; other blocked jobs belong to another life.
            history.blocked_job = source if event == "unblocked" else None
            return source
    return None


def needs_payloads(table: Table) -> bool:
    """Whether a table has columns that need a lookup in the store."""
    return any(name in table.names for name in _NAMES)


def events_for(table: Table) -> Table:
    """The columns of the journal that a table needs."""
    own = [name for name in table.names if name != "result"]
    return JOURNAL_CARRIED.pick([*own, *(name for name in _NEEDED if name not in own)])


class PayloadLookup:
    """Looks up the columns that events lack, for rows that pass the filters."""

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
        yield from coalesce(self._filled(events))

    def _filled(self, events: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        kept = self._early.rows(events.append_column(_ROW, pa.array(np.arange(events.num_rows))))
        if kept.num_rows == 0:
            return
        requests = _Requests(events, self._table)
        for rows in requests.parts(kept.column(_ROW).to_pylist()):
            found = self._runner.run(self._find(requests.ids(rows)))
            yield self._late.rows(self._batch(events, requests, rows, found))

    def _batch(self, events: pa.RecordBatch, requests: "_Requests", rows: list[int], found: "_Finds") -> pa.RecordBatch:
        part = events.take(pa.array(rows, pa.int64()))
        filled = {
            "payload": lambda: pc.coalesce(
                part.column("payload"), texts([requests.payload(row, found) for row in rows])
            ),
            "result": lambda: texts([requests.result(row, found) for row in rows]),
        }
        arrays = [filled[name]() if name in filled else part.column(name) for name in self._table.names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._table.arrow)

    async def _find(self, ids: Mapping[tuple[str, str], list[str]]) -> "_Finds":
        found: _Finds = {}
        for name, queue_ids in ids.items():
            answers = await self._store.reads.find(self._queues[name], queue_ids)
            found |= {(*name, id): each for id, each in zip(queue_ids, answers, strict=True) if each is not None}
        return found


class _Requests:
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
        sources, may_end = payload_sources(
            [
                PayloadEvent(event, key, reason, dead_letter)
                for event, key, reason, dead_letter in zip(
                    rows["event"], self._keys, rows["reason"], self._dead_letters, strict=True
                )
            ]
        )
        wants_payload = "payload" in table.names
        missing = pc.is_null(events.column("payload")).to_pylist() if wants_payload else [False] * len(sources)
        self._sources = [source if is_missing else None for source, is_missing in zip(sources, missing, strict=True)]
        self._may_end = may_end if "result" in table.names else [False] * len(may_end)

    def parts(self, rows: Sequence[int]) -> Iterator[list[int]]:
        """The rows in parts of one call to the store each."""
        part: list[int] = []
        count = size = 0
        for row in rows:
            if self._sources[row] is not None or self._may_end[row]:
                own = self._sizes[row] or 0
                if count == BATCH_MAX or (part and size + own > SCAN_PART_BYTES):
                    yield part
                    part, count, size = [], 0, 0
                count, size = count + 1, size + own
            part.append(row)
        if part:
            yield part

    def ids(self, rows: Sequence[int]) -> dict[tuple[str, str], list[str]]:
        """The ids to look up, by tenant and queue; each once."""
        ids: dict[tuple[str, str], dict[str, None]] = {}
        for row in rows:
            if self._sources[row] is not None or self._may_end[row]:
                tenant, queue, id = self._keys[row]
                ids.setdefault((tenant, queue), {})[id] = None
        return {name: list(queue_ids) for name, queue_ids in ids.items()}

    def payload(self, row: int, found: _Finds) -> bytes | None:
        source, known = self._sources[row], found.get(self._keys[row])
        if source is None or known is None:
            return None
        at_ms = self._at_ms[row] or 0
        for record in _candidates(source, known, at_ms):
            if len(record.payload) == self._sizes[row]:
                return record.payload
        return None

    def result(self, row: int, found: _Finds) -> bytes | None:
        known = found.get(self._keys[row])
        if not self._may_end[row] or known is None or known.finished_job is None:
            return None
        is_own = is_of(known.finished_job, self._enqueued_at_ms[row] or 0, self._at_ms[row] or 0)
        return known.finished_job.result if is_own else None


def _candidates(source: PayloadSource, found: Found, at_ms: int) -> Iterator[Record]:
    """The records that may hold the payload of an event, the likeliest first."""
    yield from (each.record for each in found.dead_letters if each.key.number in source.dead_letters)
    if source.then == BLOCKED_JOB and found.blocked_job is not None:
        yield found.blocked_job
    if source.then == LIVE:
        # A later job is another one. A job that died after the event has left a dead letter, its first.
        if not source.dead_letters:
            died = [each for each in found.dead_letters if each.record.enqueued_at_ms <= at_ms < each.died_at_ms]
            yield from (each.record for each in sorted(died, key=lambda each: each.key))
        if found.record is not None and found.record.enqueued_at_ms <= at_ms:
            yield found.record


def is_of(finished_job: FinishedJob, enqueued_at_ms: int, at_ms: int) -> bool:
    """Whether a finished job belongs to an event, and not to a later run of the id. The journal's clock never goes back
    while others may, so a finished job can be slightly older than its event, never younger."""
    return (
        finished_job.state == "done"
        and finished_job.enqueued_at_ms == enqueued_at_ms
        and finished_job.ended_at_ms <= at_ms
    )
