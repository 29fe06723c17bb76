"""Reads: one job with everything known of it, lists, finished jobs, snapshots, workers."""

from collections.abc import Sequence
from typing import Protocol

from headrace.model.finished import FinishedJob
from headrace.model.job import State
from headrace.model.names import Queue, Shard
from headrace.model.results import Found, Group, Page, Scan, Snapshot, WorkerSeen


class Reads(Protocol):
    """Looks that change nothing. What is over (`until <= now`) is not shown even when it was not swept yet."""

    async def find(self, queue: Queue, ids: Sequence[str], *, now_ms: int | None = None) -> Sequence[Found | None]:
        """All that is known of each id, None for an unknown one. The state is that of the liveliest record: active,
        waiting, then the finished job, then dead."""

    async def list(
        self, queue: Queue, state: State, *, cursor: str | None = None, limit: int = 100, now_ms: int | None = None
    ) -> Page[Found]:
        """The jobs in a state by shard, then id: one that stays in the state is listed exactly once, whatever else
        moves. Dead ones are listed by `store.dead`; asking for them here is refused."""

    async def finished_job(self, queue: Queue, id: str, *, now_ms: int | None = None) -> FinishedJob | None:
        """The finished job of a job, with its result, while it is kept."""

    async def snapshot(self, shard: Shard, *, now_ms: int | None = None) -> Snapshot:
        """Every record of a shard at one instant of its journal, so that the two can be compared."""

    async def scan(
        self,
        shard: Shard,
        group: Group,
        *,
        cursor: str | None = None,
        limit: int = 1_000,
        now_ms: int | None = None,
    ) -> Scan:
        """Everything of a group, in parts of about `limit` rows or 4 MiB of payloads and results (a part may be empty
        or somewhat larger, and still have a cursor), each of one instant of the journal. The cost of a part does not
        grow with the shard.

        In no order. What stays in its group from the beginning of a scan to its end is shown at least once, nearly
        always exactly once; what comes or goes meanwhile may be shown or not. An unknown shard has nothing, and
        `as_of_seq` 0.
        """

    async def workers(self, queue: Queue, *, now_ms: int | None = None) -> Sequence[WorkerSeen]:
        """The workers that claimed within the last day, by name, then shard."""
