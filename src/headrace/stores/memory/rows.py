"""The rows of one shard in dictionaries and sorted lists."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

from sortedcontainers import SortedDict, SortedList

from headrace.model.event import Consumer, Entry
from headrace.model.finished import DeadLetter, FinishedJob
from headrace.model.job import BlockedJob, State
from headrace.model.limits import NUMBER_BITS, PRIORITY_MAX
from headrace.model.names import Shard
from headrace.model.policy import QueueConfig
from headrace.model.results import Counts, Group
from headrace.stores.engine.journal import append
from headrace.stores.engine.rows import KeyRow, OldestEntry, ShardCounters, WorkerRow, part_of
from headrace.stores.shared.lookup import Row


class MemoryRows:
    """Every index key is derived from the record itself, so no index can disagree with it."""

    def __init__(self, shard: Shard, config: QueueConfig, fail_queue: Callable[[], "MemoryRows"]) -> None:
        self.shard = shard
        self.counters = ShardCounters()
        self.config = config
        self._fail_queue = fail_queue
        self._jobs: SortedDict[str, Row] = SortedDict()
        self._ready: SortedList[tuple[int, str]] = SortedList()
        self._later: SortedList[tuple[int, str]] = SortedList()
        self._leases: SortedList[tuple[int, str]] = SortedList()
        self._blocked_jobs: SortedDict[str, BlockedJob] = SortedDict()
        self._keys: dict[tuple[str, str], KeyRow] = {}
        self._key_ends: SortedList[tuple[int, str, str]] = SortedList()
        self._finished_jobs: SortedDict[str, FinishedJob] = SortedDict()
        self._finished_number = 0
        self._finished_numbers: dict[str, int] = {}
        self._unpinned_order: SortedDict[int, str] = SortedDict()
        self._pinned_order: SortedDict[int, str] = SortedDict()
        self._pinned: SortedList[tuple[int, str]] = SortedList()
        self._dead_letters: SortedDict[int, DeadLetter] = SortedDict()
        self._workers: SortedDict[str, WorkerRow] = SortedDict()
        self._entries: deque[Entry] = deque()
        self._consumers: SortedDict[str, Consumer] = SortedDict()

    def fail_queue(self) -> "MemoryRows":
        return self._fail_queue()

    def load(self, ids: list[str]) -> None:
        pass

    def seal(self, ids: list[str]) -> None:
        pass  # a step in memory has no others beside it

    def job(self, id: str) -> Row | None:
        return self._jobs.get(id)

    def put(self, row: Row) -> None:
        self.drop(row.record.id)
        self._jobs[row.record.id] = row
        index, key = self._index(row)
        index.add(key)

    def drop(self, id: str) -> None:
        row = self._jobs.pop(id, None)
        if row is not None:
            index, key = self._index(row)
            index.remove(key)

    def _index(self, row: Row) -> tuple["SortedList[tuple[int, str]]", tuple[int, str]]:
        record = row.record
        if row.delivery is not None:
            return self._leases, (row.delivery.expires_at_ms, record.id)
        if record.order_key is not None:
            return self._ready, (record.order_key, record.id)
        return self._later, (record.run_at_ms, record.id)

    def overdue(self, now_ms: int, limit: int) -> list[Row]:
        return self._first(self._leases, now_ms, limit)

    def due(self, now_ms: int, limit: int) -> list[Row]:
        return self._first(self._later, now_ms, limit)

    def _first(self, index: "SortedList[tuple[int, str]]", upto: int, limit: int) -> list[Row]:
        found = islice(index.irange(maximum=(upto + 1, ""), inclusive=(True, False)), limit)
        return [self._jobs[id] for _, id in found]

    def ready(self, after_order_key: int, limit: int) -> list[Row]:
        found = islice(self._ready.irange(minimum=(after_order_key + 1, "")), limit)
        return [self._jobs[id] for _, id in found]

    def next_later_ms(self) -> int | None:
        return self._later[0][0] if self._later else None

    def next_lease_end_ms(self) -> int | None:
        return self._leases[0][0] if self._leases else None

    def of_nonce(self, nonce: str) -> list[Row]:
        rows = [self._jobs[id] for _, id in self._leases]
        mine = [row for row in rows if row.delivery is not None and row.delivery.nonce == nonce]
        return sorted(mine, key=lambda row: row.delivery.fence if row.delivery is not None else 0)

    def blocked_job(self, id: str) -> BlockedJob | None:
        return self._blocked_jobs.get(id)

    def put_blocked_job(self, blocked_job: BlockedJob) -> None:
        self._blocked_jobs[blocked_job.record.id] = blocked_job

    def drop_blocked_job(self, id: str) -> None:
        self._blocked_jobs.pop(id, None)

    def key(self, id: str, key: str) -> KeyRow | None:
        return self._keys.get((id, key))

    def put_key(self, id: str, key: str, row: KeyRow) -> None:
        old = self._keys.get((id, key))
        if old is not None:
            self._key_ends.remove((old.until_ms, id, key))
        self._keys[id, key] = row
        self._key_ends.add((row.until_ms, id, key))

    def sweep_keys(self, now_ms: int, limit: int) -> int:
        over = list(islice(self._key_ends.irange(maximum=(now_ms + 1, "", ""), inclusive=(True, False)), limit))
        for _, id, key in over:
            self._drop_key(id, key)
        return len(over)

    def _drop_key(self, id: str, key: str) -> None:
        self._key_ends.remove((self._keys.pop((id, key)).until_ms, id, key))

    def finished_job(self, id: str) -> FinishedJob | None:
        return self._finished_jobs.get(id)

    def put_finished_job(self, finished_job: FinishedJob) -> None:
        self.drop_finished_job(finished_job.id)
        self._finished_jobs[finished_job.id] = finished_job
        self._finished_number += 1
        self._finished_numbers[finished_job.id] = self._finished_number
        self._finished_order(finished_job.pinned)[self._finished_number] = finished_job.id
        if finished_job.pinned:
            self._pinned.add((finished_job.until_ms, finished_job.id))

    def drop_finished_job(self, id: str) -> None:
        finished_job = self._finished_jobs.pop(id, None)
        if finished_job is not None:
            del self._finished_order(finished_job.pinned)[self._finished_numbers.pop(id)]
            if finished_job.pinned:
                self._pinned.remove((finished_job.until_ms, id))

    def _finished_order(self, pinned: bool) -> "SortedDict[int, str]":
        return self._pinned_order if pinned else self._unpinned_order

    def sweep_finished_jobs(self, now_ms: int, keep_max: int, limit: int) -> int:
        swept = 0
        unpinned = self._unpinned_order
        while swept < limit and unpinned:
            _, id = unpinned.peekitem(0)
            if len(unpinned) <= keep_max and self._finished_jobs[id].until_ms > now_ms:
                break
            self.drop_finished_job(id)
            swept += 1
        while swept < limit and self._pinned and self._pinned[0][0] <= now_ms:
            self.drop_finished_job(self._pinned[0][1])
            swept += 1
        return swept

    def dead_letter(self, number: int) -> DeadLetter | None:
        return self._dead_letters.get(number)

    def newest_dead_letter(self, id: str) -> DeadLetter | None:
        return max(self.dead_letters_of(id), key=lambda dead_letter: dead_letter.key.number, default=None)

    def dead_letters_of(self, id: str) -> list[DeadLetter]:
        return [dead_letter for dead_letter in self._dead_letters.values() if dead_letter.record.id == id]

    def dead_letters(self, after: int, limit: int) -> list[DeadLetter]:
        return [self._dead_letters[number] for number in islice(self._dead_letters.irange(minimum=after + 1), limit)]

    def put_dead_letter(self, dead_letter: DeadLetter) -> None:
        self._dead_letters[dead_letter.key.number] = dead_letter

    def drop_dead_letter(self, number: int) -> None:
        self._dead_letters.pop(number, None)

    def dead_letters_over(self, now_ms: int, keep_max: int, limit: int) -> list[DeadLetter]:
        over: list[DeadLetter] = []
        for dead_letter in islice(self._dead_letters.values(), limit):
            if len(self._dead_letters) - len(over) <= keep_max and dead_letter.until_ms > now_ms:
                break
            over.append(dead_letter)
        return over

    def worker(self, name: str) -> WorkerRow | None:
        return self._workers.get(name)

    def put_worker(self, name: str, row: WorkerRow) -> None:
        self._workers[name] = row

    def sweep_workers(self, before_ms: int, limit: int) -> int:
        over = [name for name, row in self._workers.items() if row.seen_at_ms <= before_ms][:limit]
        for name in over:
            del self._workers[name]
        return len(over)

    def append(self, lines: bytes, count: int, now_ms: int, worker: str | None) -> None:
        append(self, lines, count, now_ms, worker)

    def number(self) -> None:
        pass  # `append` has numbered it

    def put_entry(self, entry: Entry) -> None:
        self._entries.append(entry)

    def oldest_entry(self) -> OldestEntry | None:
        if not self._entries:
            return None
        oldest = self._entries[0]
        return OldestEntry(oldest.last_seq, oldest.at_ms, len(oldest.lines))

    def drop_oldest_entry(self) -> None:
        self._entries.popleft()

    def consumer(self, name: str) -> Consumer | None:
        return self._consumers.get(name)

    def consumers(self) -> list[Consumer]:
        return list(self._consumers.values())

    def put_consumer(self, consumer: Consumer) -> None:
        self._consumers[consumer.name] = consumer

    def drop_consumer(self, name: str) -> None:
        self._consumers.pop(name, None)

    def entries(self, after: int, upto: int, limit: int, bytes_max: int) -> list[Entry]:
        found: list[Entry] = []
        first = bisect_right(self._entries, after, key=lambda entry: entry.last_seq)
        for entry in islice(self._entries, first, first + limit):
            if entry.first_seq > upto or bytes_max <= 0:
                break
            found.append(entry)
            bytes_max -= len(entry.lines)
        return found

    def reached(self, after: int, upto: int, at_ms: int) -> int:
        written = bisect_right(self._entries, at_ms, key=lambda entry: entry.at_ms)
        last_seq = self._entries[written - 1].last_seq if written else self.counters.first_seq - 1
        return max(after, min(last_seq, upto))

    def counts(self, now_ms: int) -> Counts:
        done = sum(finished_job.state == "done" for finished_job in self._finished_jobs.values())
        return Counts(
            len(self._ready) + len(self._later),
            len(self._later),
            len(self._blocked_jobs),
            len(self._leases),
            done,
            len(self._finished_jobs) - done,
            len(self._dead_letters),
            self._oldest_due_ms(now_ms),
        )

    def _oldest_due_ms(self, now_ms: int) -> int | None:
        firsts = [self._jobs[id].record.due_since_ms for _, id in self._first_of_each_priority()]
        if self._later and self._later[0][0] <= now_ms:
            firsts.append(self._jobs[self._later[0][1]].record.due_since_ms)
        return min(firsts, default=None)

    def _first_of_each_priority(self) -> list[tuple[int, str]]:
        found: list[tuple[int, str]] = []
        for rank in range(PRIORITY_MAX + 1):
            lowest, highest = rank << NUMBER_BITS, rank + 1 << NUMBER_BITS
            found += islice(self._ready.irange((lowest, ""), (highest, ""), (True, False)), 1)
        return found

    def waiting_count(self) -> int:
        return len(self._ready) + len(self._later) + len(self._blocked_jobs)

    def ids_in(self, state: State, after_id: str, limit: int) -> list[str]:
        match state:
            case State.WAITING | State.ACTIVE:
                active = state is State.ACTIVE
                ids = (
                    id
                    for id in self._jobs.irange(minimum=after_id, inclusive=(False, True))
                    if (self._jobs[id].delivery is not None) is active
                )
            case State.BLOCKED:
                ids = (id for id in self._blocked_jobs.irange(minimum=after_id, inclusive=(False, True)))
            case _:
                ids = (
                    id
                    for id in self._finished_jobs.irange(minimum=after_id, inclusive=(False, True))
                    if self._finished_jobs[id].state == state.value
                )
        return list(islice(ids, limit))

    def id_behind(self, group: Group, after_id: str, count: int) -> str | None:
        ids = self._jobs if group == "alive" else self._finished_jobs
        behind = ids.irange(minimum=after_id, inclusive=(False, True))
        return next(islice(behind, count - 1, None), None)

    def ready_page(self, after_order_key: int, limit: int) -> list[Row]:
        return self.ready(after_order_key, limit)

    def later_page(self, after: tuple[int, str], limit: int) -> list[Row]:
        return self._after(self._later, after, limit)

    def active_page(self, after: tuple[int, str], limit: int) -> list[tuple[Row, BlockedJob | None]]:
        found = self._after(self._leases, after, limit)
        return [(row, self._blocked_jobs.get(row.record.id)) for row in found]

    def _after(self, index: "SortedList[tuple[int, str]]", after: tuple[int, str], limit: int) -> list[Row]:
        found = islice(index.irange(minimum=after, inclusive=(False, True)), limit)
        return [self._jobs[id] for _, id in found]

    def finished_page(self, pinned: bool, below: int, limit: int) -> list[tuple[int, FinishedJob]]:
        order = self._finished_order(pinned)
        found = islice(order.irange(maximum=below, inclusive=(True, False), reverse=True), limit)
        return [(number, self._finished_jobs[order[number]]) for number in found]

    def dead_page(self, below: int, limit: int) -> list[DeadLetter]:
        found = self._dead_letters.irange(maximum=below, inclusive=(True, False), reverse=True)
        return [self._dead_letters[number] for number in islice(found, limit)]

    def ready_before(self, order_key: int, most: int) -> int:
        return min(self._ready.bisect_left((order_key, "")), most)

    def scan_jobs(self, after_id: str, limit: int, bytes_max: int | None) -> tuple[list[Row], bool]:
        found = (self._jobs[id] for id in self._jobs.irange(minimum=after_id, inclusive=(False, True)))
        return part_of(found, lambda row: len(row.record.payload), limit, bytes_max)

    def scan_finished_jobs(self, after_id: str, limit: int, bytes_max: int | None) -> tuple[list[FinishedJob], bool]:
        found = (
            self._finished_jobs[id] for id in self._finished_jobs.irange(minimum=after_id, inclusive=(False, True))
        )
        return part_of(found, lambda finished_job: len(finished_job.result or b""), limit, bytes_max)

    def scan_dead_letters(self, after: int, limit: int, bytes_max: int) -> tuple[list[DeadLetter], bool]:
        found = (self._dead_letters[number] for number in self._dead_letters.irange(minimum=after + 1))
        return part_of(found, lambda dead_letter: len(dead_letter.record.payload), limit, bytes_max)

    def everything(self) -> tuple[list[Row], list[BlockedJob], list[FinishedJob], list[DeadLetter]]:
        return (
            list(self._jobs.values()),
            list(self._blocked_jobs.values()),
            list(self._finished_jobs.values()),
            list(self._dead_letters.values()),
        )

    def workers(self) -> list[tuple[str, WorkerRow]]:
        return list(self._workers.items())

    def leases_over(self, now_ms: int, limit: int) -> int:
        return len(self.overdue(now_ms, limit))

    def stranded(self, after_id: str, limit: int) -> list[str]:
        blocked_jobs = self._blocked_jobs.irange(minimum=after_id, inclusive=(False, True))
        return list(
            islice((id for id in blocked_jobs if (row := self._jobs.get(id)) is None or row.delivery is None), limit)
        )

    def kept(self) -> dict[str, int]:
        return {}  # every count is the length of a collection

    def counted(self) -> dict[str, int]:
        return {}

    def recount(self, counted: dict[str, int]) -> None:
        pass

    def erase(self, limit: int) -> int:
        first = list(islice(self._drops(), limit))
        for drop in first:
            drop()
        return len(first)

    def _drops(self) -> Iterator[Callable[[], object]]:
        yield from (partial(self.drop_finished_job, id) for id in self._finished_jobs)
        yield from (partial(self.drop_dead_letter, number) for number in self._dead_letters)
        yield from (partial(self._drop_key, id, key) for id, key in self._keys)
        yield from (partial(self._workers.pop, name) for name in self._workers)
        yield from (partial(self.drop_consumer, name) for name in self._consumers)
