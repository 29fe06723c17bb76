"""Queues: configuration, counts, names, and their end."""

from collections.abc import Mapping
from typing import Protocol

from headrace.model.names import Queue
from headrace.model.queue_config import QueueConfig
from headrace.model.results import Counts, Page


class Queues(Protocol):
    """Queues come to be when they are first enqueued to or configured; asking after one does not make it."""

    async def configure(
        self,
        queue: Queue,
        changes: Mapping[str, object],
        *,
        version: int | None = None,
        now_ms: int | None = None,
    ) -> QueueConfig:
        """Change settings (`paused` included) and return the new configuration, its version one higher.

        With `version`, refuses (`Refused`, reason `version_changed`) when somebody else was faster. Every shard's
        journal gets `configured`. Resuming wakes waiters.
        """

    async def configuration(self, queue: Queue) -> QueueConfig:
        """The configuration in force; an unknown queue has the one it would start with."""

    async def counts(self, queue: Queue, *, now_ms: int | None = None) -> Counts:
        """How many jobs stand where, from counters: as cheap with a million jobs as with none."""

    async def names(self, tenant: str, *, cursor: str | None = None, limit: int = 100) -> Page[Queue]:
        """The queues of a tenant by name, fail queues included, with their shards."""

    async def tenants(self, *, cursor: str | None = None, limit: int = 100) -> Page[str]:
        """The tenants that have queues, by name; for operators, never for a tenant."""

    async def purge(self, queue: Queue, *, limit: int = 1_000, now_ms: int | None = None) -> int:
        """Drop waiting jobs, at most `limit`, by shard, then in the order in which they would be handed out, and
        say how many; each writes `purged`. Call again while the answer is `limit`."""

    async def delete(self, queue: Queue, *, limit: int = 1_000) -> bool:
        """Forget a queue that has no waiting, blocked or active jobs (`Refused`, reason `not_empty`, otherwise), with
        its finished jobs, dead letters, keys, journal and configuration: at most `limit` rows a call; True when all is
        gone."""
