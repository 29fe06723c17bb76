"""The interface of drivers to the engine: the rows of a shard, a transaction, and the engine that runs it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct

from headrace.model.event import Consumer, Entry
from headrace.model.feed import FeedConfig, FeedName
from headrace.model.finished import DeadLetter, FinishedJob
from headrace.model.job import BlockedJob, State
from headrace.model.names import Queue, Shard
from headrace.model.policy import QueueConfig
from headrace.model.results import Counts, Group, QueueOverview
from headrace.stores.engine.feed_rows import FeedCounters, FeedRows
from headrace.stores.shared.lookup import Row


class KeyRow(Struct, frozen=True, gc=False):
    """A used idempotency key; holds while `now < until_ms`."""

    fingerprint: str
    until_ms: int


class WorkerRow(Struct, frozen=True, gc=False):
    """A worker on a shard: its last nonce with claims, and when it was seen."""

    nonce: str
    seen_at_ms: int


class OldestEntry(Struct, frozen=True, gc=False):
    """The first entry of a journal, for retention."""

    last_seq: int
    at_ms: int
    bytes: int


class ShardCounters:
    """The counters of a shard; they only grow, except the bytes."""

    __slots__ = (
        "at_ms",
        "dead_letter",
        "epoch",
        "fence",
        "first_seq",
        "journal_bytes",
        "number",
        "oldest_at_ms",
        "seq",
    )

    def __init__(
        self,
        epoch: int = 1,
        seq: int = 0,
        at_ms: int = 0,
        fence: int = 0,
        number: int = 0,
        dead_letter: int = 0,
        first_seq: int = 1,
        journal_bytes: int = 0,
        oldest_at_ms: int = 0,
    ) -> None:
        self.epoch = epoch
        self.seq = seq
        self.at_ms = at_ms
        self.fence = fence
        self.number = number
        self.dead_letter = dead_letter
        self.first_seq = first_seq
        self.journal_bytes = journal_bytes
        self.oldest_at_ms = oldest_at_ms


class Rows(Protocol):
    """The rows of one shard in a driver. Lists have the stated order, ids by code point."""

    config: QueueConfig

    @property
    def shard(self) -> Shard:
        """The shard."""

    @property
    def counters(self) -> ShardCounters:
        """The counters, changed in place."""

    def fail_queue(self) -> "Rows":
        """The rows of the fail queue's shard with the same index, in the same atomic step; created when missing."""

    def load(self, ids: list[str]) -> None:
        """A hint that these ids come next."""

    def seal(self, ids: list[str]) -> None:
        """Keep others from creating jobs of these ids, which have none, until the step ends."""

    # Jobs that wait or are active.
    def job(self, id: str) -> Row | None: ...
    def put(self, row: Row) -> None: ...
    def drop(self, id: str) -> None: ...
    def overdue(self, now_ms: int, limit: int) -> list[Row]:
        """Active ones with `expires_at <= now`, by end, then id."""

    def due(self, now_ms: int, limit: int) -> list[Row]:
        """Later ones with `run_at <= now`, by time, then id."""

    def ready(self, after_order_key: int, limit: int) -> list[Row]:
        """Ready ones with `order_key > after_order_key`, by order key."""

    def next_later_ms(self) -> int | None:
        """The earliest time of a later one."""

    def next_lease_end_ms(self) -> int | None:
        """The earliest end of a lease."""

    def of_nonce(self, nonce: str) -> list[Row]:
        """Active ones that were claimed with this nonce, by fence."""

    # Blocked jobs.
    def blocked_job(self, id: str) -> BlockedJob | None: ...
    def put_blocked_job(self, blocked_job: BlockedJob) -> None: ...
    def drop_blocked_job(self, id: str) -> None: ...

    # Idempotency keys, scoped to their id.
    def key(self, id: str, key: str) -> KeyRow | None: ...
    def put_key(self, id: str, key: str, row: KeyRow) -> None: ...
    def sweep_keys(self, now_ms: int, limit: int) -> int:
        """Drop keys with `until <= now`."""

    # Finished jobs: at most one per id.
    def finished_job(self, id: str) -> FinishedJob | None: ...
    def put_finished_job(self, finished_job: FinishedJob) -> None: ...
    def drop_finished_job(self, id: str) -> None: ...
    def sweep_finished_jobs(self, now_ms: int, keep_max: int, limit: int) -> int:
        """Drop unpinned ones oldest first while there are more than `keep_max` or the oldest has `until <= now`, then
        pinned ones with `until <= now`, by that."""

    # Dead letters.
    def dead_letter(self, number: int) -> DeadLetter | None: ...
    def newest_dead_letter(self, id: str) -> DeadLetter | None: ...
    def dead_letters_of(self, id: str) -> list[DeadLetter]:
        """All dead letters of an id, by number."""

    def dead_letters(self, after: int, limit: int) -> list[DeadLetter]:
        """Dead letters with `number > after`, by number."""

    def put_dead_letter(self, dead_letter: DeadLetter) -> None: ...
    def drop_dead_letter(self, number: int) -> None: ...
    def dead_letters_over(self, now_ms: int, keep_max: int, limit: int) -> list[DeadLetter]:
        """Dead letters to sweep: by number while there are more than `keep_max` or the oldest has `until <= now`."""

    # Workers.
    def worker(self, name: str) -> WorkerRow | None: ...
    def put_worker(self, name: str, row: WorkerRow) -> None: ...
    def sweep_workers(self, before_ms: int, limit: int) -> int:
        """Drop workers with `seen_at <= before`."""

    # Journal.
    def append(self, lines: bytes, count: int, now_ms: int, worker: str | None) -> None:
        """Append the lines of one call. A store may number them later, on `number`."""

    def number(self) -> None:
        """Number all appended lines: called before the journal, its bounds or its retention are used."""

    def oldest_entry(self) -> OldestEntry | None: ...
    def drop_oldest_entry(self) -> None: ...
    def consumer(self, name: str) -> Consumer | None: ...
    def consumers(self) -> list[Consumer]: ...
    def put_consumer(self, consumer: Consumer) -> None: ...
    def drop_consumer(self, name: str) -> None: ...

    def entries(self, after: int, upto: int, limit: int, bytes_max: int) -> list[Entry]:
        """Entries with an event of `after < seq <= upto`, oldest first, until `limit` or `bytes_max` is exceeded."""

    def reached(self, after: int, upto: int, at_ms: int) -> int:
        """The last seq of `after < seq <= upto` written at or before an instant, else `after`; dropped entries count as
        written before. After `number`."""

    # Reads.
    def counts(self, now_ms: int) -> Counts:
        """The number of jobs by state."""

    def waiting_count(self) -> int:
        """The number of waiting and blocked jobs."""

    def ids_in(self, state: State, after_id: str, limit: int) -> list[str]:
        """The ids of records in a state with `id > after_id`, by id."""

    def id_behind(self, group: Group, after_id: str, count: int) -> str | None:
        """The id of the live (`alive`) or finished job (`ended`) that is `count` behind an id, by id; None for none."""

    def ready_page(self, after_order_key: int, limit: int) -> list[Row]:
        """Ready jobs with `order_key > after_order_key`, by order key, without payloads."""

    def later_page(self, after: tuple[int, str], limit: int) -> list[Row]:
        """Later jobs with `(run_at, id) > after`, by that, without payloads."""

    def active_page(self, after: tuple[int, str], limit: int) -> list[tuple[Row, BlockedJob | None]]:
        """Active jobs with `(expires_at, id) > after`, by that, without payloads, and their blocked jobs."""

    def finished_page(self, pinned: bool, below: int, limit: int) -> list[tuple[int, FinishedJob]]:
        """Finished jobs with `number < below`, the newest first, with their numbers and without results. A number
        grows with every job that ends in the shard."""

    def dead_page(self, below: int, limit: int) -> list[DeadLetter]:
        """Dead letters with `number < below`, the newest first."""

    def ready_before(self, order_key: int, most: int) -> int:
        """The number of ready jobs with a lower order key, at most `most`."""

    def scan_jobs(self, after_id: str, limit: int, bytes_max: int | None) -> tuple[list[Row], bool]:
        """Jobs that wait or are active with `id > after_id`, by id, until `limit` or `bytes_max` of payloads is
        reached, and whether there may be more. None for `bytes_max` leaves payloads out."""

    def scan_finished_jobs(self, after_id: str, limit: int, bytes_max: int | None) -> tuple[list[FinishedJob], bool]:
        """The same for finished jobs and their results."""

    def scan_dead_letters(self, after: int, limit: int, bytes_max: int) -> tuple[list[DeadLetter], bool]:
        """The same for dead letters, by number."""

    def everything(self) -> tuple[list[Row], list[BlockedJob], list[FinishedJob], list[DeadLetter]]:
        """All records, for a snapshot."""

    def workers(self) -> list[tuple[str, WorkerRow]]:
        """The known workers, by name."""

    # Integrity.
    def leases_over(self, now_ms: int, limit: int) -> int:
        """The number of leases with `expires_at <= now`, at most `limit`."""

    def stranded(self, after_id: str, limit: int) -> list[str]:
        """The ids of blocked jobs with `id > after_id` and without an active job, by id."""

    def kept(self) -> dict[str, int]:
        """The stored counters of rows, by name; none where rows are always counted."""

    def counted(self) -> dict[str, int]:
        """The same counters from the rows themselves. After `number`."""

    def recount(self, counted: dict[str, int]) -> None:
        """Set the stored counters."""

    def erase(self, limit: int) -> int:
        """Delete the rows of a shard without live jobs, except its journal, at most `limit`; returns how many."""


class DirectRows(Rows, Protocol):
    """Rows whose journal is numbered on append."""

    def put_entry(self, entry: Entry) -> None:
        """Write an entry."""


class Tx(Protocol):
    """One atomic step over any shards of a store."""

    def now_ms(self) -> int:
        """The store's clock."""

    def rows(self, shard: Shard, create: bool = False) -> Rows | None:
        """The rows of a shard; None when its queue is unknown and `create` is False. A queue with another number of
        shards raises `Refused`."""

    def shards_of(self, queue: Queue) -> int | None:
        """The number of shards of the queue or, if it is unknown, of its paired queue, which has the same number; None
        when both are unknown."""

    def configure(self, queue: Queue, config: QueueConfig) -> None:
        """Store the configuration of a known queue."""

    def names(self, tenant: str, after: str, limit: int) -> list[Queue]:
        """Queues with `full_name > after`, by that."""

    def overviews(
        self, tenant: str, names: Sequence[str] | None, after: str, limit: int, now_ms: int | None
    ) -> list[QueueOverview]:
        """The queues of these names, or those with `full_name > after`, by name."""

    def tenants(self, after: str, limit: int) -> list[str]:
        """Tenants with `name > after`, by that."""

    def forget(self, queue: Queue) -> None:
        """Drop a queue whose shards are erased."""

    def feed(self, feed: FeedName) -> FeedRows | None:
        """The rows of a feed or of a directory; None when it is unknown."""

    def make_feed(self, feed: FeedName, config: FeedConfig, counters: FeedCounters) -> FeedRows:
        """Create a feed, and return its rows."""

    def forget_feed(self, rows: FeedRows) -> None:
        """Make a feed unreachable; its rows may be erased later."""

    def erase_feeds(self, limit: int) -> int:
        """Erase rows of dropped feeds, at most `limit`; returns how many."""


T = TypeVar("T")


class Engine(Protocol):
    """Runs functions as atomic steps."""

    async def read(self, query: Callable[[Tx], T]) -> T:
        """Run a function that only reads, on one consistent state."""

    async def write(self, act: Callable[[Tx], T]) -> T:
        """Run a function whose writes are committed together, or not at all when it raises."""

    def wake(self, queues: Iterable[Queue]) -> None:
        """Wake waiters for work on these queues."""

    def notify_ended(self, queue: Queue, ids: list[str]) -> None:
        """Wake waiters for the end of these jobs."""

    def notify_changed(self, feed: FeedName) -> None:
        """Wake subscribers of a feed, and waiters for items of an item queue."""


BYTES_MAX = 2**62
"""A bound on bytes that bounds nothing."""


def part_of(found: Iterable[T], size: Callable[[T], int], limit: int, bytes_max: int | None) -> tuple[list[T], bool]:
    """The first rows until `limit` or `bytes_max` is reached, at least one if there is any, and whether there may be
    more."""
    part: list[T] = []
    left = BYTES_MAX if bytes_max is None else bytes_max
    for row in found:
        part.append(row)
        left -= size(row)
        if len(part) == limit or left <= 0:
            return part, True
    return part, False
