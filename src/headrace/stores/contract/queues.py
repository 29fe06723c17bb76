"""Queues: configuration, counts, names, purge and delete."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from headrace.model.names import Queue
from headrace.model.policy import QueueConfig
from headrace.model.results import Counts, Page, QueueOverview


class Queues(Protocol):
    """A queue is created by its first enqueue or configuration; reading it does not create it."""

    async def configure(
        self,
        queue: Queue,
        changes: Mapping[str, object],
        *,
        version: int | None = None,
        now_ms: int | None = None,
    ) -> QueueConfig:
        """Change settings (`paused` included) and return the new configuration, its version one higher.

        With `version`, refuses (`Refused`, reason `version_changed`) after another change. Every shard's
        journal gets `configured`. Resuming wakes waiters.
        """

    async def configuration(self, queue: Queue) -> QueueConfig:
        """The current configuration; that of an unknown queue is the initial one."""

    async def counts(self, queue: Queue, *, now_ms: int | None = None) -> Counts:
        """The number of jobs by state, from counters: as cheap with a million jobs as with none."""

    async def overview(
        self,
        tenant: str,
        *,
        names: Sequence[str] | None = None,
        prefix: str = "",
        cursor: str | None = None,
        limit: int = 100,
        now_ms: int | None = None,
    ) -> Page[QueueOverview]:
        """The queues of a tenant by name with their counts, fail queues included: those of `names`, without unknown
        ones, or a page of those whose names begin with `prefix`. A page takes a fixed number of round trips a server,
        however many queues it has."""

    async def names(self, tenant: str, *, cursor: str | None = None, limit: int = 100) -> Page[Queue]:
        """The queues of a tenant by name, fail queues included, with their shards."""

    async def tenants(self, *, cursor: str | None = None, limit: int = 100) -> Page[str]:
        """The tenants that have queues, by name; for operators, never for a tenant."""

    async def purge(self, queue: Queue, *, limit: int = 1_000, now_ms: int | None = None) -> int:
        """Drop waiting jobs, at most `limit`, by shard, then in the order of claims, and return how many;
        each writes the event `purged`. Call again while the answer is `limit`."""

    async def delete(self, queue: Queue, *, limit: int = 1_000) -> bool:
        """Delete a queue that has no waiting, blocked or active jobs (`Refused`, reason `not_empty`, otherwise), with
        its finished jobs, dead letters, keys, journal and configuration: at most `limit` rows a call; True when all is
        gone."""
