"""Looks at the queue of a map, and waits until workers elsewhere have drained it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.client.background import StorePortal
from headrace.client.retry import retry
from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.limits import MAP_POLL_MS, RETENTION_MAX
from headrace.model.names import Queue
from headrace.model.results import Counts
from headrace.stores.catalog import find_queue
from headrace.stores.contract.store import Store


class DrainWatch:
    """The queue of a map, as the driver sees it."""

    def __init__(self, portal: StorePortal, queue: Queue) -> None:
        self._portal = portal
        self.queue = queue
        """With the number of shards that it has, once it was `found`."""

    def found(self) -> bool:
        """Whether the queue is there."""
        named = self.queue
        found = self._portal.call(lambda store: retry(lambda: find_queue(store, named.tenant, named.full_name)))
        self.queue = found or named
        return found is not None

    def counts(self) -> Counts:
        """How many jobs stand where."""
        return self._portal.call(lambda store: retry(lambda: store.queues.counts(self.queue)))

    def look(self, tell: Callable[[Counts], None]) -> Counts | None:
        """Tell how many jobs stand where; None from a store that does not answer, which workers wait for as well."""
        try:
            counts = self.counts()
        except (StoreUnavailable, OutcomeUnknown):
            return None
        tell(counts)
        return counts

    def wait(self, tell: Callable[[Counts], None], stopping: threading.Event) -> None:
        """Wait until nothing waits, runs or is blocked, or until asked to stop."""
        counts: Counts | None = self.counts()
        while (counts is None or open_jobs(counts)) and not stopping.wait(MAP_POLL_MS / 1_000):
            counts = self.look(tell)

    def keep_dead_letters(self, rows: int, keep_ms: int) -> None:
        """Let the queue keep the dead letters of all rows as long as results are kept, if it would drop some before."""

        async def configure(store: Store) -> None:
            config = await store.queues.configuration(self.queue)
            wanted = {"keep_dead_max": min(rows, RETENTION_MAX), "keep_dead_ms": keep_ms}
            changes = {name: value for name, value in wanted.items() if getattr(config, name) < value}
            if changes:
                await store.queues.configure(self.queue, changes)

        self._portal.call(lambda store: retry(lambda: configure(store)))


@contextmanager
def watching(url: str, queue: Queue) -> Iterator[DrainWatch]:
    """A look at a queue for this block."""
    with StorePortal(url) as portal:
        yield DrainWatch(portal, queue)


def open_jobs(counts: Counts) -> int:
    """Jobs that are not over."""
    return counts.waiting + counts.active + counts.blocked
