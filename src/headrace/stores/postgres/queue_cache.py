"""Caches queues for the fast paths; every statement checks that the cached configuration is still valid."""

from typing import NamedTuple

import msgspec

from headrace.model.names import Queue
from headrace.model.policy import QueueConfig
from headrace.stores.postgres.connection import Connection
from headrace.stores.postgres.sql import sql
from headrace.stores.shared.waiters import Name, name_of

QUEUES_MAX = 1_024
"""As many queues as a busy process uses; beyond it, the cache is emptied."""


class NotFastPath(Exception):
    """The fast path does not apply; the transitions decide."""


class QueueMissing(NotFastPath):
    """The queue does not exist yet: the transitions create it, and the next call is usual again."""


class NotPlain(NotFastPath):
    """A settlement needs to read its jobs before it can be written."""


class CachedQueue(msgspec.Struct, frozen=True):
    """A queue as it was last read."""

    queue_id: int
    text: str
    """The configuration as it is stored: `config` is valid as long as it is the same."""
    config: QueueConfig
    shard_ids: list[int]


class DueShard(NamedTuple):
    """A shard with jobs that are due."""

    known: CachedQueue
    shard_id: int


class JobsDue(NotFastPath):
    """Jobs of a shard are due, and must be made ready before a claim."""

    def __init__(self, shard: DueShard) -> None:
        super().__init__()
        self.shard = shard


class QueueCache:
    """The queues that this process has used, shared by its threads."""

    def __init__(self) -> None:
        self._known: dict[Name, CachedQueue] = {}

    def get(self, connection: Connection, queue: Queue) -> CachedQueue:
        """The queue, read when it is not cached; raises when it does not exist or has another number of shards."""
        name = name_of(queue)
        known = self._known.get(name)
        if known is None:
            found = connection.execute(sql("queue_find"), name).fetchone()
            if found is None:
                raise QueueMissing
            queue_id, text, shard_ids = found
            known = CachedQueue(queue_id, text, msgspec.json.decode(text, type=QueueConfig), shard_ids)
            if len(self._known) >= QUEUES_MAX:
                self._known = {}
            self._known[name] = known
        if len(known.shard_ids) != queue.shards:
            raise NotFastPath
        return known

    def forget(self) -> None:
        """Empty the cache: something has changed."""
        self._known = {}
