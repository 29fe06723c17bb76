"""The rows of one shard in SQLite: read in batches, kept while the step lasts, written back at once."""

import sqlite3
from collections.abc import Callable
from itertools import takewhile
from typing import Any

import msgspec

from headrace.model.answers import Counts
from headrace.model.claim import Delivery
from headrace.model.config import QueueConfig
from headrace.model.event import Consumer, Entry
from headrace.model.job import NO_HEADERS, Job, Record, State
from headrace.model.letter import Ending, Letter
from headrace.model.limits import PLACE_BITS, PRIORITY_MAX
from headrace.model.names import Shard
from headrace.model.outcome import JobError
from headrace.model.policy import NO_POLICY, Policy
from headrace.model.twin import Twin
from headrace.stores.sqlite.sql import sql
from headrace.stores.transitions.rows import Head, KeyRow, OldestEntry, Row, WorkerRow

KEY_BITS = 40
"""Keys of entries and endings: the shard above, a number of the shard below."""
PINNED = 1 << KEY_BITS - 1


class Body(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What no statement looks at of a job. Written short when the rarely set fields at its end are not set."""

    kind: str
    tag: str | None
    enqueued_at_ms: int
    attempts: int = 0
    stalls: int = 0
    policy: Policy = NO_POLICY
    headers: dict[str, str] = NO_HEADERS
    error: JobError | None = None
    failed_at_ms: int | None = None


class PackedLease(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What no statement looks at of a delivery."""

    worker: str
    claimed_at_ms: int
    cancel_asked: bool


pack = msgspec.msgpack.Encoder().encode
unpack_body = msgspec.msgpack.Decoder(Body).decode
unpack_lease = msgspec.msgpack.Decoder(PackedLease).decode
_TWIN = msgspec.msgpack.Decoder(Twin).decode
_LETTER = msgspec.msgpack.Decoder(Letter).decode


class SqliteHead(Head):
    """The counters of a shard as they are stored."""

    __slots__ = ("active", "blocked", "cancelled", "dead", "done", "ending", "later", "ready", "unpinned")
    ready: int
    later: int
    blocked: int
    active: int
    done: int
    cancelled: int
    dead: int
    unpinned: int
    ending: int
    COLUMNS = (
        "epoch",
        "seq",
        "at_ms",
        "fence",
        "number",
        "letter",
        "first_seq",
        "journal_bytes",
        "oldest_at_ms",
        "ready",
        "later",
        "blocked",
        "active",
        "done",
        "cancelled",
        "dead",
        "unpinned",
        "ending",
    )

    def __init__(self, stored: tuple[int, ...]) -> None:
        super().__init__()
        for column, value in zip(self.COLUMNS, stored, strict=True):
            setattr(self, column, value)

    def stored(self) -> tuple[int, ...]:
        """The counters in the order of their columns."""
        return tuple(getattr(self, column) for column in self.COLUMNS)

    def count(self, row: Row | None, by: int) -> None:
        """Count a job in or out."""
        if row is None:
            return
        if row.delivery is not None:
            self.active += by
        elif row.record.place is not None:
            self.ready += by
        else:
            self.later += by

    def ended(self, state: str, pinned: bool, by: int) -> None:
        """Count an ending in or out."""
        if state == "done":
            self.done += by
        else:
            self.cancelled += by
        if not pinned:
            self.unpinned += by


class SqliteRows:
    """Jobs and endings that a step touches are kept here and written together; the rest goes straight to the file."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        shard: Shard,
        shard_id: int,
        stored: tuple[int, ...],
        config: QueueConfig,
        companion: Callable[[], "SqliteRows"],
        fast: bool,
    ) -> None:
        self.shard = shard
        self.shard_id = shard_id
        self.head = SqliteHead(stored)
        self.config = config
        self.fast = fast
        """Whether fast paths may be tried in this step."""
        self._stored = stored
        self._companion = companion
        self.connection = connection
        self._run = connection.execute
        self._jobs: dict[str, Row | None] = {}
        self._dirty: dict[str, bool] = {}
        self._endings: dict[str, Ending | None] = {}
        self._base = shard_id << KEY_BITS

    def companion(self) -> "SqliteRows":
        return self._companion()

    # Jobs.

    def load(self, ids: list[str]) -> None:
        wanted = [id for id in ids if id not in self._jobs]
        for id in wanted:
            self._jobs[id] = None
        if self.head.ready or self.head.later or self.head.active:
            self._keep(self._run(sql("job_load"), (self.shard_id, json_array(wanted))))

    def job(self, id: str) -> Row | None:
        if id not in self._jobs:
            self.load([id])
        return self._jobs[id]

    def put(self, row: Row) -> None:
        id = row.record.id
        old = self.job(id)
        self.head.count(old, -1)
        self.head.count(row, 1)
        # A delivery changes only its own columns, unless the job itself is still to be written.
        lease_only = row.delivery is not None and old is not None and self._dirty.get(id, True)
        self._jobs[id] = row
        self._dirty[id] = lease_only

    def drop(self, id: str) -> None:
        old = self.job(id)
        if old is not None:
            self.head.count(old, -1)
            self._jobs[id] = None
            self._dirty[id] = False

    def flush(self) -> None:
        """Write the jobs that the step has changed so far."""
        if not self._dirty:
            return
        written, leased, dropped = [], [], []
        for id, lease_only in self._dirty.items():
            row = self._jobs[id]
            if row is None:
                dropped.append((self.shard_id, id))
            elif lease_only and row.delivery is not None:
                leased.append((*_lease_columns(row.delivery), self.shard_id, id))
            else:
                written.append((self.shard_id, *_columns(row)))
        self._dirty = {}
        many = self.connection.executemany
        if dropped:
            many(sql("job_drop"), dropped)
        if leased:
            many(sql("job_lease"), leased)
        if written:
            many(sql("job_write"), written)

    def forget(self) -> None:
        """Write what was changed and read anew whatever is asked for next."""
        self.flush()
        self.flush_endings()
        self._jobs = {}

    def _keep(self, found: sqlite3.Cursor) -> list[Row]:
        rows = []
        for columns in found:
            row = _row(columns)
            self._jobs[row.record.id] = row
            rows.append(row)
        return rows

    def overdue(self, now_ms: int, limit: int) -> list[Row]:
        return self._ordered("job_overdue", now_ms, limit) if self.head.active else []

    def due(self, now_ms: int, limit: int) -> list[Row]:
        return self._ordered("job_due", now_ms, limit) if self.head.later else []

    def ready(self, after_place: int, limit: int) -> list[Row]:
        return self._ordered("job_ready", after_place, limit) if self.head.ready else []

    def _ordered(self, name: str, bound: int | str, limit: int) -> list[Row]:
        self.flush()
        return self._keep(self._run(sql(name), (self.shard_id, bound, limit)))

    def next_later_ms(self) -> int | None:
        found = self._first_later() if self.head.later else None
        return None if found is None else found[0]

    def _first_later(self) -> tuple[int, bytes] | None:
        self.flush()
        found: tuple[int, bytes] | None = self._run(sql("job_first_later"), (self.shard_id,)).fetchone()
        return found

    def next_lease_end_ms(self) -> int | None:
        self.flush()
        found = self._run(sql("job_first_lease"), (self.shard_id,)).fetchone() if self.head.active else None
        return None if found is None else int(found[0])

    def of_nonce(self, nonce: str) -> list[Row]:
        self.flush()
        return self._keep(self._run(sql("job_of_nonce"), (self.shard_id, nonce)))

    # Twins.

    def twin(self, id: str) -> Twin | None:
        if not self.head.blocked:
            return None
        found = self._run(sql("twin_find"), (self.shard_id, id)).fetchone()
        return None if found is None else _TWIN(found[0])

    def put_twin(self, twin: Twin) -> None:
        if self.twin(twin.record.id) is None:
            self.head.blocked += 1
        self._run(sql("twin_write"), (self.shard_id, twin.record.id, pack(twin)))

    def drop_twin(self, id: str) -> None:
        if self.head.blocked:
            self.head.blocked -= self._run(sql("twin_drop"), (self.shard_id, id)).rowcount

    # Idempotency keys.

    def key(self, id: str, key: str) -> KeyRow | None:
        found = self._run(sql("key_find"), (self.shard_id, id, key)).fetchone()
        return None if found is None else KeyRow(*found)

    def put_key(self, id: str, key: str, row: KeyRow) -> None:
        self._run(sql("key_write"), (self.shard_id, id, key, row.fingerprint, row.until_ms))

    def sweep_keys(self, now_ms: int, limit: int) -> int:
        return self._run(sql("key_sweep"), (self.shard_id, self.shard_id, now_ms, limit)).rowcount

    # Endings.

    def ending(self, id: str) -> Ending | None:
        self.flush_endings()
        found = self._run(sql("ending_find"), (self.shard_id, id)).fetchone()
        return None if found is None else _ending(found)

    def put_ending(self, ending: Ending) -> None:
        self._endings.pop(ending.id, None)
        self._endings[ending.id] = ending

    def drop_ending(self, id: str) -> None:
        self._endings[id] = None

    def drop_endings(self, ids: list[str]) -> None:
        """Drop the endings of these ids, if there are endings at all."""
        if self.head.done or self.head.cancelled:
            self._endings |= dict.fromkeys(ids)

    def flush_endings(self) -> None:
        """Write the endings that the step has changed so far."""
        if not self._endings:
            return
        head = self.head
        if head.done or head.cancelled:
            ids = json_array(list(self._endings))
            for state, pinned in self._run(sql("ending_drop"), (self.shard_id, ids)).fetchall():
                head.ended(state, pinned, -1)
        written = [_ending_columns(ending) for ending in self._endings.values() if ending is not None]
        self._endings = {}
        if written:
            self.insert_endings(written)

    def insert_endings(self, endings: list[tuple[Any, ...]]) -> None:
        """Insert endings, as columns in the order of ending_find; an id that has one is a constraint error."""
        head, base, shard_id = self.head, self._base, self.shard_id
        number, written = head.ending, []
        for columns in endings:
            number += 1
            _, state, pinned, *_ = columns
            head.ended(state, pinned, 1)
            written.append((base + number + PINNED * pinned, shard_id, *columns))
        head.ending = number
        self.connection.executemany(sql("ending_write"), written)

    def sweep_endings(self, now_ms: int, keep_max: int, limit: int) -> int:
        self.flush_endings()
        head, span = self.head, (self._base, self._base + PINNED - 1)
        swept = self._drop_oldest(min(max(head.unpinned - keep_max, 0), limit))
        if head.unpinned and swept < limit:
            oldest = self._run(sql("ending_oldest"), (*span, 1)).fetchone()
            if oldest[0] <= now_ms:
                ends = self._run(sql("ending_oldest"), (*span, limit - swept)).fetchall()
                swept += self._drop_oldest(len(list(takewhile(lambda end: end[0] <= now_ms, ends))))
        if head.done + head.cancelled > head.unpinned and swept < limit:
            gone = self._run(sql("ending_drop_pinned"), (self.shard_id, now_ms, limit - swept)).fetchall()
            for (state,) in gone:
                head.ended(state, True, -1)
            swept += len(gone)
        return swept

    def _drop_oldest(self, count: int) -> int:
        if not count:
            return 0
        span = (self._base, self._base + PINNED - 1)
        gone = self._run(sql("ending_drop_oldest"), (*span, count - 1)).fetchall()
        for (state,) in gone:
            self.head.ended(state, False, -1)
        return len(gone)

    # Letters.

    def letter(self, number: int) -> Letter | None:
        found = self._run(sql("letter_find"), (self.shard_id, number)).fetchone()
        return None if found is None else _LETTER(found[0])

    def newest_letter(self, id: str) -> Letter | None:
        found = self._run(sql("letter_newest"), (self.shard_id, id)).fetchone()
        return None if found is None else _LETTER(found[0])

    def letters_of(self, id: str) -> list[Letter]:
        if not self.head.dead:
            return []
        return [_LETTER(body) for (body,) in self._run(sql("letter_of_id"), (self.shard_id, id))]

    def letters(self, after: int, limit: int) -> list[Letter]:
        return [_LETTER(body) for (body,) in self._run(sql("letter_list"), (self.shard_id, after, limit))]

    def put_letter(self, letter: Letter) -> None:
        self.head.dead += 1
        columns = (self.shard_id, letter.key.number, letter.record.id, letter.until_ms, pack(letter))
        self._run(sql("letter_write"), columns)

    def drop_letter(self, number: int) -> None:
        self.head.dead -= self._run(sql("letter_drop"), (self.shard_id, number)).rowcount

    def letters_over(self, now_ms: int, keep_max: int, limit: int) -> list[Letter]:
        over: list[Letter] = []
        for letter in self.letters(0, min(limit, max(self.head.dead, 0))):
            if self.head.dead - len(over) <= keep_max and letter.until_ms > now_ms:
                break
            over.append(letter)
        return over

    # Workers.

    def worker(self, name: str) -> WorkerRow | None:
        found = self._run(sql("worker_find"), (self.shard_id, name)).fetchone()
        return None if found is None else WorkerRow(*found)

    def put_worker(self, name: str, row: WorkerRow) -> None:
        self._run(sql("worker_write"), (self.shard_id, name, row.nonce, row.seen_at_ms))

    def sweep_workers(self, before_ms: int, limit: int) -> int:
        return self._run(sql("worker_sweep"), (self.shard_id, self.shard_id, before_ms, limit)).rowcount

    def workers(self) -> list[tuple[str, WorkerRow]]:
        found = self._run(sql("worker_list"), (self.shard_id,))
        return [(name, WorkerRow(nonce, seen_at_ms)) for name, nonce, seen_at_ms in found]

    # Journal.

    def append(self, entry: Entry) -> None:
        columns = (self._base + entry.last_seq, entry.count, entry.epoch, entry.at_ms, entry.worker, entry.lines)
        self._run(sql("entry_write"), columns)

    def oldest_entry(self) -> OldestEntry | None:
        found = self._run(sql("entry_oldest"), (self._base, self._base + PINNED * 2 - 1)).fetchone()
        return None if found is None else OldestEntry(found[0] - self._base, found[1], found[2])

    def drop_oldest_entry(self) -> None:
        oldest = self.oldest_entry()
        if oldest is not None:
            self._run(sql("entry_drop"), (self._base + oldest.last_seq,))

    def entries(self, after: int, upto: int, limit: int, bytes_max: int) -> list[Entry]:
        found: list[Entry] = []
        keys = (self._base + after + 1, self._base + PINNED * 2 - 1)
        for key, count, epoch, at_ms, worker, lines in self._run(sql("entry_read"), (*keys, limit)):
            entry = Entry(epoch=epoch, last_seq=key - self._base, count=count, at_ms=at_ms, worker=worker, lines=lines)
            if entry.first_seq > upto or bytes_max <= 0:
                break
            found.append(entry)
            bytes_max -= len(lines)
        return found

    def consumer(self, name: str) -> Consumer | None:
        found = self._run(sql("consumer_find"), (self.shard_id, name)).fetchone()
        return None if found is None else _consumer(found)

    def consumers(self) -> list[Consumer]:
        return [_consumer(found) for found in self._run(sql("consumer_list"), (self.shard_id,))]

    def put_consumer(self, consumer: Consumer) -> None:
        columns = (self.shard_id, consumer.name, consumer.seq, consumer.hold, consumer.seen_at_ms)
        self._run(sql("consumer_write"), columns)

    def drop_consumer(self, name: str) -> None:
        self._run(sql("consumer_drop"), (self.shard_id, name))

    # Looks.

    def counts(self, now_ms: int) -> Counts:
        head = self.head
        return Counts(
            head.ready + head.later,
            head.later,
            head.blocked,
            head.active,
            head.done,
            head.cancelled,
            head.dead,
            self._oldest_due_ms(now_ms),
        )

    def _oldest_due_ms(self, now_ms: int) -> int | None:
        self.flush()
        firsts: list[int] = []
        for rank in range(PRIORITY_MAX + 1 if self.head.ready else 0):
            places = (self.shard_id, rank << PLACE_BITS, (rank + 1 << PLACE_BITS) - 1)
            firsts += (_due_since(*each) for each in self._run(sql("job_first_ready"), places))
        later = self._first_later() if self.head.later else None
        if later is not None and later[0] <= now_ms:
            firsts.append(_due_since(*later))
        return min(firsts, default=None)

    def held(self) -> int:
        return self.head.ready + self.head.later + self.head.blocked

    def ids_in(self, state: State, after_id: str, limit: int) -> list[str]:
        self.flush()
        self.flush_endings()
        match state:
            case State.WAITING:
                found = self._run(sql("job_ids_waiting"), (self.shard_id, after_id, limit))
            case State.ACTIVE:
                found = self._run(sql("job_ids_active"), (self.shard_id, after_id, limit))
            case State.BLOCKED:
                found = self._run(sql("twin_ids"), (self.shard_id, after_id, limit))
            case _:
                found = self._run(sql("ending_ids"), (self.shard_id, after_id, state.value, limit))
        return [id for (id,) in found]

    def everything(self) -> tuple[list[Row], list[Twin], list[Ending], list[Letter]]:
        self.flush()
        self.flush_endings()
        shard = (self.shard_id,)
        return (
            [_row(columns) for columns in self._run(sql("job_all"), shard)],
            [_TWIN(body) for (body,) in self._run(sql("twin_all"), shard)],
            [_ending(columns) for columns in self._run(sql("ending_all"), shard)],
            self.letters(0, self.head.dead),
        )

    def erase(self, limit: int) -> int:
        shard = self.shard_id
        gone = self._run(sql("erase_ending"), (shard, limit)).fetchall()
        for state, pinned in gone:
            self.head.ended(state, pinned, -1)
        letters = self._run(sql("erase_letter"), (shard, limit - len(gone))).rowcount
        self.head.dead -= letters
        erased = len(gone) + letters
        for name in ("erase_idempotency", "erase_worker", "erase_consumer"):
            erased += self._run(sql(name), (shard, shard, limit - erased)).rowcount
        return erased

    def write_back(self) -> None:
        """Write what the step changed."""
        self.flush()
        self.flush_endings()
        stored = self.head.stored()
        if stored != self._stored:
            self._run(sql("shard_write"), (*stored, self.shard_id))
            self._stored = stored


def _due_since(run_at_ms: int, body: bytes) -> int:
    return max(run_at_ms, unpack_body(body).enqueued_at_ms)


def json_array(ids: list[str]) -> str:
    """Ids as one argument."""
    return msgspec.json.encode(ids).decode()


def pack_body(job: Job | Record, enqueued_at_ms: int) -> bytes:
    """The body of a new job, or of a record."""
    if isinstance(job, Job):
        if job.policy is NO_POLICY and not job.headers:
            return pack((job.kind, job.tag, enqueued_at_ms))
        return pack(Body(job.kind, job.tag, enqueued_at_ms, 0, 0, job.policy, job.headers))
    return pack(
        Body(
            job.kind,
            job.tag,
            enqueued_at_ms,
            job.attempts,
            job.stalls,
            job.policy,
            job.headers,
            job.error,
            job.failed_at_ms,
        )
    )


def record_of(id: str, run_at_ms: int, body: Body, payload: bytes, place: int | None = None) -> Record:
    """A record from its columns."""
    return Record(
        id=id,
        kind=body.kind,
        payload=payload,
        run_at_ms=run_at_ms,
        enqueued_at_ms=body.enqueued_at_ms,
        policy=body.policy,
        tag=body.tag,
        headers=body.headers,
        attempts=body.attempts,
        stalls=body.stalls,
        error=body.error,
        failed_at_ms=body.failed_at_ms,
        place=place,
    )


def _row(columns: tuple[Any, ...]) -> Row:
    id, place, run_at_ms, expires_at_ms, fence, nonce, lease, body, payload = columns
    record = record_of(id, run_at_ms, unpack_body(body), payload, place)
    if fence is None:
        return Row(record)
    packed = unpack_lease(lease)
    return Row(
        record,
        Delivery(fence, nonce, packed.worker, packed.claimed_at_ms, expires_at_ms, packed.cancel_asked),
    )


def _columns(row: Row) -> tuple[object, ...]:
    record = row.record
    lease = (None, None, None, None) if row.delivery is None else _lease_columns(row.delivery)
    body = pack_body(record, record.enqueued_at_ms)
    return (record.id, record.place, record.run_at_ms, *lease, body, record.payload)


def _lease_columns(delivery: Delivery) -> tuple[int, int, str, bytes]:
    lease = pack(PackedLease(delivery.worker, delivery.claimed_at_ms, delivery.cancel_asked))
    return delivery.expires_at_ms, delivery.fence, delivery.nonce, lease


def pack_ending(kind: str, tag: str | None, enqueued_at_ms: int, ended_at_ms: int, attempts: int, stalls: int) -> bytes:
    """What no statement looks at of an ending."""
    return pack((kind, tag, enqueued_at_ms, ended_at_ms, attempts, stalls))


def _ending_columns(ending: Ending) -> tuple[object, ...]:
    body = pack_ending(
        ending.kind, ending.tag, ending.enqueued_at_ms, ending.ended_at_ms, ending.attempts, ending.stalls
    )
    return ending.id, ending.state, ending.pinned, ending.until_ms, body, ending.result


def _ending(columns: tuple[Any, ...]) -> Ending:
    id, state, pinned, until_ms, body, result = columns
    kind, tag, enqueued_at_ms, ended_at_ms, attempts, stalls = msgspec.msgpack.decode(body)
    return Ending(id, state, kind, tag, enqueued_at_ms, ended_at_ms, until_ms, bool(pinned), attempts, stalls, result)


def _consumer(columns: tuple[Any, ...]) -> Consumer:
    name, seq, hold, seen_at_ms = columns
    return Consumer(name, seq, bool(hold), seen_at_ms)
