"""Lists the jobs of a tenant's queues, state by state, in bounded steps."""

import base64
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct, field

from headrace.inspect.lookup import queues_of
from headrace.model.errors import Refused
from headrace.model.finished import DeadLetter, FinishedJob
from headrace.model.job import Record, State
from headrace.model.limits import CURSOR_CHARS_MAX, PAGE_MAX, SEARCH_SCAN_MAX
from headrace.model.names import Queue
from headrace.model.outcome import JobError
from headrace.model.redact import redact
from headrace.model.results import Found, View
from headrace.model.times import instant_text
from headrace.stores.contract.dead_letters import ALL_DEAD_LETTERS, DeadLetterFilter
from headrace.stores.contract.store import Store

P = TypeVar("P")
STATES = (State.WAITING, State.ACTIVE, State.BLOCKED, State.DONE, State.CANCELLED, State.DEAD)
"""The order of a list: live jobs first, then finished ones."""
PEEKS_MAX = 50
"""Calls that check whether more jobs follow; after them a page has a cursor in any case."""


class ErrorView(Struct, frozen=True):
    """An error of a job, without secrets."""

    class_: str = field(name="class")
    message: str

    @staticmethod
    def of(error: JobError | None) -> "ErrorView | None":
        """The view of an error, if there is one."""
        return None if error is None else ErrorView(error.cls, redact(error.message))


class JobRow(Struct, frozen=True, kw_only=True):
    """A job of a list."""

    queue: str
    id: str
    kind: str
    state: State
    tag: str | None
    attempts: int
    stalls: int
    enqueued_at: str
    enqueued_at_ms: int
    run_at: str | None
    """When a waiting or blocked job is due."""
    run_at_ms: int | None
    lease_expires_at: str | None
    lease_expires_at_ms: int | None
    ended_at: str | None
    ended_at_ms: int | None
    worker: str | None
    """The worker of an active job."""
    dead_letter: str | None
    error: ErrorView | None
    """The error of the last failed attempt."""


class JobPage(Struct, frozen=True):
    """A page of a list of jobs; `cursor` is None on the last one."""

    jobs: list[JobRow]
    cursor: str | None


async def list_jobs(
    store: Store,
    tenant: str,
    queue: str | None,
    state: State | None,
    *,
    kind: str | None = None,
    since_ms: int | None = None,
    cursor: str | None,
    limit: int,
) -> JobPage:
    """The jobs of a queue or of all queues of a tenant, in one state or in all: active ones by the end of their lease,
    waiting ones as they are handed out, then those that have ended, the newest first.

    With a `kind`, only jobs of it; with `since_ms`, only those that were enqueued or ended since. A page that looks at
    `SEARCH_SCAN_MAX` jobs ends there.
    """
    browsing = JobBrowse(store, await queues_of(store, tenant, queue), state, cursor=cursor)
    jobs: list[ScannedJob] = []
    looked = 0
    while len(jobs) < limit and looked < SEARCH_SCAN_MAX and not browsing.is_over:
        found = await browsing.take(limit - len(jobs), since_ms)
        looked += len(found)
        jobs += [job for job in found if job.is_shown(state, kind, since_ms)]
    return JobPage([job.row() for job in jobs], await browsing.cursor_if_more())


def states_of(state: State | None) -> tuple[State, ...]:
    """One state, or all in the order of a list."""
    return STATES if state is None else (state,)


class ScannedJob(Struct, frozen=True):
    """A job in one of its states: an active id with a blocked job is scanned twice, once in each state."""

    queue: Queue
    state: State
    body: Record | FinishedJob
    found: Found | None = None
    dead_letter: DeadLetter | None = None

    @property
    def id(self) -> str:
        """The job's id."""
        return self.body.id

    @property
    def record(self) -> Record | None:
        """The whole record; a finished job has none."""
        return self.body if isinstance(self.body, Record) else None

    @property
    def ended_at_ms(self) -> int | None:
        """When it was done, was cancelled or died."""
        if self.dead_letter is not None:
            return self.dead_letter.died_at_ms
        return self.body.ended_at_ms if isinstance(self.body, FinishedJob) else None

    @property
    def error(self) -> JobError | None:
        """The error of the last failed attempt."""
        if self.dead_letter is not None:
            return self.dead_letter.error
        return None if self.record is None else self.record.error

    def is_shown(self, state: State | None, kind: str | None, since_ms: int | None) -> bool:
        """Whether a list with these filters shows it."""
        return (
            state in (None, self.state)
            and kind in (None, self.body.kind)
            and (since_ms is None or (self.ended_at_ms or self.body.enqueued_at_ms) >= since_ms)
        )

    def row(self) -> JobRow:
        """The job as a row of a list."""
        body, record = self.body, self.record
        lease = self.found if self.state is State.ACTIVE else None
        run_at_ms = record.run_at_ms if record is not None and self.state in (State.WAITING, State.BLOCKED) else None
        lease_expires_at_ms = None if lease is None else lease.lease_expires_at_ms
        return JobRow(
            queue=self.queue.full_name,
            id=body.id,
            kind=body.kind,
            state=self.state,
            tag=body.tag,
            attempts=body.attempts,
            stalls=body.stalls,
            enqueued_at=instant_text(body.enqueued_at_ms),
            enqueued_at_ms=body.enqueued_at_ms,
            run_at=instant_or_none(run_at_ms),
            run_at_ms=run_at_ms,
            lease_expires_at=instant_or_none(lease_expires_at_ms),
            lease_expires_at_ms=lease_expires_at_ms,
            ended_at=instant_or_none(self.ended_at_ms),
            ended_at_ms=self.ended_at_ms,
            worker=None if lease is None else lease.worker,
            dead_letter=None if self.dead_letter is None else str(self.dead_letter.key),
            error=ErrorView.of(self.error),
        )


def instant_or_none(at_ms: int | None) -> str | None:
    """An instant as text, if there is one."""
    return None if at_ms is None else instant_text(at_ms)


class _Position(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a list continues."""

    state: State
    queue: str
    cursor: str | None


class _Place(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a list in the order of views continues."""

    view: View
    queue: str
    state: State | None
    cursor: str | None


class JobBrowse:
    """Walks the views of queues by cursor: a view of all queues, then the next view. A page costs its rows.

    Raises `Refused` (`bad_cursor`) for a cursor of another list.
    """

    def __init__(
        self, store: Store, queues: Sequence[Queue], state: State | None, *, cursor: str | None = None
    ) -> None:
        self._store, self._state = store, state
        self._parts = [(view, queue) for view in VIEWS_OF[state] for queue in queues]
        self._index = 0
        self._cursor: str | None = None
        if cursor is not None:
            place = _read_place(cursor, _Place)
            parts = [(view, queue.full_name) for view, queue in self._parts]
            if place.state != state or (place.view, place.queue) not in parts:
                raise _bad_cursor()
            self._index, self._cursor = parts.index((place.view, place.queue)), place.cursor

    @property
    def is_over(self) -> bool:
        """Whether all views were walked."""
        return self._index >= len(self._parts)

    async def take(self, limit: int, since_ms: int | None = None) -> list[ScannedJob]:
        """The next jobs of one view of one queue, sometimes none although more follow; skips the rest of a view with
        the newest first as soon as one has ended before `since_ms`."""
        view, queue = self._parts[self._index]
        page = await self._store.reads.browse(queue, view, cursor=self._cursor, limit=min(limit, PAGE_MAX))
        jobs = [_browsed(queue, view, found) for found in page.rows]
        is_past = since_ms is not None and any((job.ended_at_ms or since_ms) < since_ms for job in jobs)
        self._cursor = None if is_past else page.cursor
        if self._cursor is None:
            self._index += 1
        return jobs

    async def cursor_if_more(self) -> str | None:
        """The cursor of the next page; None if no job follows, as far as a few calls can tell."""
        index, cursor = self._index, self._cursor
        for _ in range(PEEKS_MAX):
            if self.is_over:
                return None
            if await self.take(1):
                break
        view, queue = self._parts[index]
        packed = msgspec.json.encode(_Place(view, queue.full_name, self._state, cursor))
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")


VIEWS_OF: Mapping[State | None, tuple[View, ...]] = {
    None: ("active", "next", "later", "blocked", "finished", "dead"),
    State.ACTIVE: ("active",),
    State.WAITING: ("next", "later"),
    State.BLOCKED: ("blocked",),
    State.DONE: ("finished",),
    State.CANCELLED: ("finished",),
    State.DEAD: ("dead",),
}
"""The views that show the jobs of a state, and all of them in the order of a list."""


def _browsed(queue: Queue, view: View, found: Found) -> ScannedJob:
    if view == "dead":
        [dead_letter] = found.dead_letters
        return ScannedJob(queue, State.DEAD, dead_letter.record, dead_letter=dead_letter)
    state = State.BLOCKED if view == "blocked" else found.state
    return ScannedJob(queue, state, _body(found, state), found=found)


class JobScan:
    """Scans states, and in each all queues, by cursor and never back, so that it ends although jobs come and go.

    Raises `Refused` (`bad_cursor`) for a cursor of another scan.
    """

    def __init__(
        self,
        store: Store,
        queues: Sequence[Queue],
        states: Sequence[State] = STATES,
        *,
        cursor: str | None = None,
        where: DeadLetterFilter = ALL_DEAD_LETTERS,
    ) -> None:
        self._store = store
        self._where = where
        self._states, self._queues = states, queues
        self._index = 0
        """The index of the partition: all queues in the first state, then all in the next."""
        self._cursor: str | None = None
        if cursor is not None:
            self._index, self._cursor = _read_cursor(cursor, states, queues)

    @property
    def is_over(self) -> bool:
        """Whether the scan is at its end."""
        return self._index >= len(self._states) * len(self._queues)

    @property
    def partition(self) -> tuple[State, Queue]:
        """The next partition: a state of a queue."""
        state, queue = divmod(self._index, len(self._queues))
        return self._states[state], self._queues[queue]

    @property
    def cursor(self) -> str | None:
        """The cursor for the next scan; None at the end."""
        if self.is_over:
            return None
        state, queue = self.partition
        packed = msgspec.json.encode(_Position(state, queue.full_name, self._cursor))
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    async def take(self, limit: int = PAGE_MAX) -> list[ScannedJob]:
        """The next jobs of one partition: at most `limit`, sometimes none although more follow."""
        state, queue = self.partition
        limit = min(limit, PAGE_MAX)
        if state is State.DEAD:
            dead = await self._store.dead.list(queue, where=self._where, cursor=self._cursor, limit=limit)
            jobs = [ScannedJob(queue, state, each.record, dead_letter=each) for each in dead.rows]
            self._cursor = dead.cursor
        else:
            page = await self._store.reads.list(queue, state, cursor=self._cursor, limit=limit)
            jobs = [ScannedJob(queue, state, _body(found, state), found=found) for found in page.rows]
            self._cursor = page.cursor
        if self._cursor is None:
            self._index += 1
        return jobs

    def is_at(self, partition: tuple[State, Queue]) -> bool:
        """Whether more of this partition follows."""
        return not self.is_over and self.partition == partition

    def skip_partition(self) -> None:
        """Skip the rest of this partition."""
        self._index, self._cursor = self._index + 1, None

    async def page(self, limit: int) -> tuple[list[ScannedJob], str | None]:
        """The next `limit` jobs, fewer only at the end, and the cursor of the next page, None after the last."""
        jobs: list[ScannedJob] = []
        while len(jobs) < limit and not self.is_over:
            jobs += await self.take(limit - len(jobs))
        cursor = self.cursor
        for _ in range(PEEKS_MAX):
            if self.is_over:
                return jobs, None
            if await self.take(1):
                break
        return jobs, cursor


def _body(found: Found, state: State) -> Record | FinishedJob:
    body = found.record
    match state:
        case State.BLOCKED:
            body = found.blocked_job
        case State.DONE | State.CANCELLED:
            assert found.finished_job is not None  # a list of finished jobs has no others
            return found.finished_job
    assert body is not None  # a live job has a record
    return body


def _read_cursor(cursor: str, states: Sequence[State], queues: Sequence[Queue]) -> tuple[int, str | None]:
    position = _read_place(cursor, _Position)
    names = [queue.full_name for queue in queues]
    if position.queue not in names or position.state not in states:
        raise _bad_cursor()
    return states.index(position.state) * len(queues) + names.index(position.queue), position.cursor


def _read_place(cursor: str, place: type[P]) -> P:
    try:
        cursor = cursor[: 8 * CURSOR_CHARS_MAX]
        packed = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), b"-_", validate=True)
        return msgspec.json.decode(packed, type=place)
    except (ValueError, msgspec.MsgspecError) as error:
        raise _bad_cursor() from error


def _bad_cursor() -> Refused:
    return Refused("bad_cursor", "the cursor does not belong to a list with these options; start without a cursor")
