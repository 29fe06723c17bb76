"""Goes through the records of a tenant's queues, state by state, in bounded steps."""

import base64
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from headrace.model.errors import Refused
from headrace.model.finished import DeadLetter, FinishedJob
from headrace.model.job import Record, State
from headrace.model.limits import CURSOR_CHARS_MAX, PAGE_MAX
from headrace.model.names import Queue
from headrace.model.outcome import JobError
from headrace.model.results import Found
from headrace.stores.contract.dead_letters import ALL_DEAD_LETTERS, DeadLetterFilter
from headrace.stores.contract.store import Store

STATES = (State.WAITING, State.ACTIVE, State.BLOCKED, State.DONE, State.CANCELLED, State.DEAD)
"""What is under way first, then what is over."""
PEEKS_MAX = 50
"""Calls that find out whether anything follows; beyond that a cursor is given on suspicion."""


class Seen(Struct, frozen=True):
    """A record as a list shows it: an id that is active and has a blocked job is seen twice, once in each state."""

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
        """When it was over, if it is."""
        if self.dead_letter is not None:
            return self.dead_letter.died_at_ms
        return self.body.ended_at_ms if isinstance(self.body, FinishedJob) else None

    @property
    def error(self) -> JobError | None:
        """What went wrong last, if anything did."""
        if self.dead_letter is not None:
            return self.dead_letter.error
        return None if self.record is None else self.record.error


class _Place(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a list goes on."""

    state: State
    queue: str
    cursor: str | None


class JobScan:
    """A way through states, and in each through queues. It ends although jobs come and go: by cursor, never back.

    Raises `Refused` (`bad_cursor`) for a cursor that no such walk gave.
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
        """Of the station: all queues in the first state, then all in the next."""
        self._cursor: str | None = None
        if cursor is not None:
            self._index, self._cursor = _read(cursor, states, queues)

    @property
    def over(self) -> bool:
        """Whether everything was seen."""
        return self._index >= len(self._states) * len(self._queues)

    @property
    def station(self) -> tuple[State, Queue]:
        """What is seen next: a state of a queue."""
        state, queue = divmod(self._index, len(self._queues))
        return self._states[state], self._queues[queue]

    @property
    def cursor(self) -> str | None:
        """Where another walk goes on; None at the end."""
        if self.over:
            return None
        state, queue = self.station
        packed = msgspec.json.encode(_Place(state, queue.full_name, self._cursor))
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")

    async def take(self, limit: int = PAGE_MAX) -> list[Seen]:
        """The next records of one station: at most `limit`, and at times none although more follow."""
        state, queue = self.station
        limit = min(limit, PAGE_MAX)
        if state is State.DEAD:
            dead_letters = await self._store.dead.list(queue, where=self._where, cursor=self._cursor, limit=limit)
            seen = [
                Seen(queue, state, dead_letter.record, dead_letter=dead_letter) for dead_letter in dead_letters.rows
            ]
            self._cursor = dead_letters.cursor
        else:
            page = await self._store.reads.list(queue, state, cursor=self._cursor, limit=limit)
            seen = [Seen(queue, state, _body(found, state), found=found) for found in page.rows]
            self._cursor = page.cursor
        if self._cursor is None:
            self._index += 1
        return seen

    def stands_at(self, station: tuple[State, Queue]) -> bool:
        """Whether more of this station is to be seen."""
        return not self.over and self.station == station

    def skip_station(self) -> None:
        """Leave out what is left of this station."""
        self._index, self._cursor = self._index + 1, None

    async def page(self, limit: int) -> tuple[list[Seen], str | None]:
        """The next `limit` records, fewer at the end only, and the cursor of what follows, None if nothing does."""
        rows: list[Seen] = []
        while len(rows) < limit and not self.over:
            rows += await self.take(limit - len(rows))
        cursor = self.cursor
        for _ in range(PEEKS_MAX):
            if self.over:
                return rows, None
            if await self.take(1):
                break
        return rows, cursor


def _body(found: Found, state: State) -> Record | FinishedJob:
    body = found.record
    match state:
        case State.BLOCKED:
            body = found.blocked_job
        case State.DONE | State.CANCELLED:
            assert found.finished_job is not None  # a list of finished jobs shows nothing else
            return found.finished_job
    assert body is not None  # what waits or runs has a record
    return body


def _read(cursor: str, states: Sequence[State], queues: Sequence[Queue]) -> tuple[int, str | None]:
    try:
        cursor = cursor[: 4 * CURSOR_CHARS_MAX]
        packed = base64.b64decode(cursor.encode() + b"=" * (-len(cursor) % 4), b"-_", validate=True)
        place = msgspec.json.decode(packed, type=_Place)
        queue = [queue.full_name for queue in queues].index(place.queue)
        index = states.index(place.state) * len(queues) + queue
    except (ValueError, msgspec.MsgspecError) as error:
        raise Refused(
            "bad_cursor", "the cursor is not one that this list gave with the same options; start without --cursor"
        ) from error
    return index, place.cursor
