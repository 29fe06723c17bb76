"""Reads: jobs by id, lists, finished jobs, snapshots, scans and workers."""

from collections.abc import Sequence
from typing import Protocol

from headrace.model.finished import FinishedJob
from headrace.model.job import State
from headrace.model.names import Queue, Shard
from headrace.model.results import ALL_IDS, Found, Group, IdRange, Page, Scan, Snapshot, View, WorkerSeen


class Reads(Protocol):
    """Reads change nothing. Rows past their retention (`until <= now`) are not shown, even before they are swept."""

    async def find(
        self, queue: Queue, ids: Sequence[str], *, ahead: bool = False, now_ms: int | None = None
    ) -> Sequence[Found | None]:
        """All records of each id, None for an unknown one. The state is that of the first record in the order active,
        waiting, finished, dead.

        With `ahead`, at most 20 ids, and a ready job has the number of jobs before it in the view `next`, exact up to
        10,000 and None beyond.
        """

    async def list(
        self, queue: Queue, state: State, *, cursor: str | None = None, limit: int = 100, now_ms: int | None = None
    ) -> Page[Found]:
        """The jobs in a state by shard, then id: a job that stays in the state is listed exactly once, whatever other
        jobs do. Refuses the state dead: `store.dead` lists dead letters."""

    async def browse(
        self, queue: Queue, view: View, *, cursor: str | None = None, limit: int = 50, now_ms: int | None = None
    ) -> Page[Found]:
        """A page of jobs in the order in which people look for them, without payloads and results:

        - `next`: ready jobs as they are handed out: by priority, then by number;
        - `later`: by the time at which they are due;
        - `active`: by the end of their lease, each with its blocked job;
        - `blocked`: active jobs that have a blocked job, as `list` shows them;
        - `finished`: done and cancelled ones, the newest first;
        - `dead`: dead letters, the newest first; an id may come several times.

        The cost of a page does not grow with the queue. A page may have fewer rows than `limit` and still have a
        cursor. A job that moves while its view is browsed may be seen twice or not at all; the others are seen once.
        """

    async def finished_job(self, queue: Queue, id: str, *, now_ms: int | None = None) -> FinishedJob | None:
        """A finished job with its result, while it is kept."""

    async def snapshot(self, shard: Shard, *, now_ms: int | None = None) -> Snapshot:
        """Every record of a shard at one instant of its journal, for a comparison of the two."""

    async def scan(
        self,
        shard: Shard,
        group: Group,
        *,
        ids: IdRange = ALL_IDS,
        payloads: bool = True,
        cursor: str | None = None,
        limit: int = 1_000,
        now_ms: int | None = None,
    ) -> Scan:
        """Everything of a group, in parts of about `limit` rows or 4 MiB of payloads and results (a part may be empty
        or somewhat larger, and still have a cursor), each of one instant of the journal. The cost of a part does not
        grow with the shard.

        In no order, and of `ids` only. Without `payloads`, payloads are empty and results None, and the store does not
        read them where they are kept apart. A row that stays in its group during the whole scan is shown at least once,
        nearly always exactly once; other rows may be shown or not. An unknown shard has no rows, and `as_of_seq` 0.
        """

    async def split_ids(self, shard: Shard, parts: int, *, now_ms: int | None = None) -> Sequence[str]:
        """Ids that cut the live or the finished jobs of a shard, whichever are more, into about `parts` equal ranges,
        ascending: a range ends with its id. None where the store has no order by id, so that a range would cost as
        much as the whole shard."""

    async def workers(self, queue: Queue, *, now_ms: int | None = None) -> Sequence[WorkerSeen]:
        """The workers that claimed within the last day, by name, then shard."""
