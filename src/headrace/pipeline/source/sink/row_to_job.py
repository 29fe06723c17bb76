"""Builds jobs from batches of rows, and refuses invalid rows one by one."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import repeat
from typing import Any

import pyarrow as pa

from headrace.model.errors import Refused
from headrace.model.job import NO_HEADERS, Job
from headrace.model.names import Queue, id_deriver
from headrace.model.policy import NO_POLICY, Policy
from headrace.pipeline.source.discovery import QueueRef, TargetQueues, queue_refs
from headrace.pipeline.source.options import WriteOptions
from headrace.pipeline.source.sink.columns import (
    INSTANT,
    JSON_VALUE,
    TEXT,
    TEXTS,
    UNREADABLE,
    WHOLE,
    ColumnSpec,
    by_cell,
    column_keys,
    instants_ms,
    json_texts,
    key_start,
    loose,
    row_keys,
    texts,
    values,
)
from headrace.pipeline.source.sink.rejects import Row

POLICY = (
    "priority",
    "timeout_ms",
    "max_attempts",
    "max_stalls",
    "backoff_ms",
    "backoff_ms_max",
    "result_ttl_ms",
    "expires_at",
)
"""Columns that are a job's policy, in the order of its fields."""
COLUMNS: dict[str, ColumnSpec] = {
    "kind": TEXT,
    "payload": JSON_VALUE,
    "id": TEXT,
    "key": TEXT,
    "queue": TEXT,
    "tenant": TEXT,
    "run_at": INSTANT,
    "delay_ms": WHOLE,
    **dict.fromkeys(POLICY[:-1], WHOLE),
    "expires_at": INSTANT,
    "tag": TEXT,
    "headers": TEXTS,
    "refusal": TEXT,
}
Refuse = Callable[[Refused, Callable[[], Row]], None]
"""Called with the refusal of a row, and a function that returns the row if refused rows are kept."""
INSTANTS = tuple(name for name, spec in COLUMNS.items() if spec is INSTANT)
_REASON_SENTENCE = re.compile(r"([a-z][a-z0-9_]{0,39}): (.+)", re.DOTALL)
_NO_KIND = Refused("bad_kind", "the row names no kind; fill column 'kind', or give option kind")
_policy = lru_cache(maxsize=1_024)(Policy)  # most rows of a frame have the same


class JobFrame:
    """A batch of rows as lists, a column each."""

    def __init__(self, options: WriteOptions, names: tuple[str, ...], batch: pa.RecordBatch) -> None:
        self._options = options
        self._batch = batch
        self._names = names
        self._odd: dict[int, Refused] = {}
        """Rows with an unreadable cell."""
        self._columns = {name: self._cells(name, batch.column(at)) for at, name in enumerate(names)}
        # Not part of the job, and so not of a key that is the hash of the row.
        self._refusals = self._columns.pop("refusal", None)
        if options.kind is not None:
            kinds = self._columns.get("kind", repeat(None, batch.num_rows))
            self._columns["kind"] = [kind or options.kind for kind in kinds]
        self.count = batch.num_rows

    def queue_refs(self) -> Iterable[QueueRef]:
        """The queue of each row."""
        return queue_refs(self._options, self.count, self._columns.get("tenant"), self._columns.get("queue"))

    def row(self, at: int) -> Row:
        """The columns of a refused row, as they are kept."""
        found: Row = {name: cells[at] for name, cells in self._columns.items()}
        found["tenant"] = found.get("tenant") or self._options.tenant
        found["queue"] = found.get("queue") or self._options.name
        for name in INSTANTS:
            found[name] = None if found.get(name) is None else found[name] * 1_000
        found["headers"] = None if found.get("headers") is None else list(found["headers"].items())
        if "payload" in found:
            found["payload"] = _text(self._batch.column(self._names.index("payload"))[at])
        return found

    def jobs(self, queues: TargetQueues, refuse: Refuse) -> Iterator[Job]:
        """A job for each row; invalid rows are refused."""
        start = key_start(self._options.key_space)
        derive: Callable[[str], str] = str
        last: QueueRef | None = None
        queue: Any = None
        ttl_ms = self._options.key_keep_ms
        for at, (ref, rest, id, kind, payload, run_at_ms, delay_ms, tag, headers, policy) in enumerate(
            self._rows(start)
        ):
            try:
                if ref != last:
                    queue, last = queues.get(ref), ref
                    derive = _deriver(queue, start)
                _check(rest, kind, payload)
                yield Job(
                    queue=queue,
                    id=derive(rest) if id is None else id,
                    kind=kind,
                    payload=payload,
                    run_at_ms=run_at_ms,
                    delay_ms=delay_ms,
                    policy=policy if policy is NO_POLICY else _policy(*policy),
                    tag=tag,
                    headers=headers or NO_HEADERS,
                    idempotency_key=start + rest,
                    idempotency_ttl_ms=ttl_ms,
                    id_given=id is not None,
                )
            except Refused as refused:
                refuse(refused, partial(self.row, at))

    def _rows(self, start: str) -> Iterator[tuple[Any, ...]]:
        get = self._columns.get
        nothing = [None] * self.count
        keys = row_keys(self._columns) if "key" not in self._columns else column_keys(start, self._columns["key"])
        return zip(
            self.queue_refs(),
            keys,
            get("id", nothing),
            get("kind", nothing),
            self._payloads(),
            get("run_at", nothing),
            get("delay_ms", nothing),
            get("tag", nothing),
            get("headers", nothing),
            self._policies(),
            strict=True,
        )

    def _payloads(self) -> Iterable[Any]:
        """The payloads; a refused row has its refusal instead."""
        payloads: Iterable[Any] = self._columns.get("payload", [b"null"] * self.count)
        if self._odd:
            payloads = [self._odd.get(at, payload) for at, payload in enumerate(payloads)]
        if self._refusals is None:
            return payloads
        return [
            payload if refusal is None else _cell_refusal(refusal)
            for payload, refusal in zip(payloads, self._refusals, strict=True)
        ]

    def _policies(self) -> Iterable[Any]:
        if not any(name in self._columns for name in POLICY):
            return repeat(NO_POLICY, self.count)
        return zip(*(self._columns.get(name, [None] * self.count) for name in POLICY), strict=True)

    def _cells(self, name: str, column: pa.Array) -> Any:
        if name == "payload":
            return json_texts("payload", column)
        spec = COLUMNS[name]
        if spec is INSTANT:
            return instants_ms(column)
        found, odd = by_cell(texts if spec is TEXT else values, name, column)
        if name != "refusal":  # it refuses the row itself
            self._odd = odd | self._odd
        return found


@lru_cache(maxsize=1_024)
def _deriver(queue: Queue, start: str) -> Callable[[str], str]:
    return id_deriver(queue, start)


def job_row(job: Job, start: str) -> Row:
    """The columns of a row whose job the store has refused, as they are kept."""
    policy = job.policy
    return {
        "kind": job.kind,
        "payload": job.payload.decode(errors="replace"),
        "id": job.id if job.id_given else None,
        "key": (job.idempotency_key or "").removeprefix(start),
        "queue": job.queue.full_name,
        "tenant": job.queue.tenant,
        "run_at": None if job.run_at_ms is None else job.run_at_ms * 1_000,
        "delay_ms": job.delay_ms,
        **{name: getattr(policy, name) for name in POLICY[:-1]},
        "expires_at": None if policy.expires_at_ms is None else policy.expires_at_ms * 1_000,
        "tag": job.tag,
        "headers": list(job.headers.items()) if job.headers else None,
    }


def _text(cell: pa.Scalar) -> str | None:
    """A payload as text, also if it is not JSON."""
    try:
        value = cell.as_py() if not pa.types.is_map(cell.type) else dict(cell.as_py() or ())
    except UNREADABLE:
        value = loose(cell)
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)


def _cell_refusal(refusal: str) -> Refused:
    """What column `refusal` says: `reason: sentence`, or a sentence alone."""
    found = _REASON_SENTENCE.fullmatch(refusal)
    return Refused("bad_row", refusal or "the row was refused") if found is None else Refused(found[1], found[2])


def _check(rest: object, kind: object, payload: object) -> None:
    """Raise the earlier refusal of a cell."""
    if type(payload) is Refused:
        raise payload
    if type(rest) is Refused:
        raise rest
    if not kind:
        raise _NO_KIND.with_traceback(None)
