"""Watches the queue of a map until its jobs are finished."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.client.background import StorePortal
from headrace.client.tasks import retry
from headrace.model.errors import OutcomeUnknown, StoreUnavailable
from headrace.model.limits import MAP_POLL_MS, RETENTION_MAX
from headrace.model.names import Queue
from headrace.model.results import Counts
from headrace.stores.catalog import find_queue
from headrace.stores.contract.store import Store


class QueueWatch:
    """The queue of a map, as the driver sees it."""

    def __init__(self, portal: StorePortal, queue: Queue) -> None:
        self._portal = portal
        self.queue = queue
        """With the number of shards in the store, once `find` was called."""

    def find(self) -> bool:
        """Look the queue up; whether it exists."""
        name = self.queue
        queue = self._portal.call(lambda store: retry(lambda: find_queue(store, name.tenant, name.full_name)))
        self.queue = queue or name
        return queue is not None

    def counts(self) -> Counts:
        """The jobs of the queue by state."""
        return self._portal.call(lambda store: retry(lambda: store.queues.counts(self.queue)))

    def poll(self, on_counts: Callable[[Counts], None]) -> Counts | None:
        """Read and report the counts; None when the store does not answer, which the workers wait for as well."""
        try:
            counts = self.counts()
        except (StoreUnavailable, OutcomeUnknown):
            return None
        on_counts(counts)
        return counts

    def wait(self, on_counts: Callable[[Counts], None], stopping: threading.Event) -> None:
        """Wait until the queue is drained, or `stopping` is set."""
        counts: Counts | None = self.counts()
        while (counts is None or counts.open) and not stopping.wait(MAP_POLL_MS / 1_000):
            counts = self.poll(on_counts)

    def keep_dead_letters(self, rows: int, keep_ms: int) -> None:
        """Raise the retention of dead letters to that of the results, so that none of a map's rows is dropped."""

        async def configure(store: Store) -> None:
            config = await store.queues.configuration(self.queue)
            wanted = {"keep_dead_max": min(rows, RETENTION_MAX), "keep_dead_ms": keep_ms}
            changes = {name: value for name, value in wanted.items() if getattr(config, name) < value}
            if changes:
                await store.queues.configure(self.queue, changes)

        self._portal.call(lambda store: retry(lambda: configure(store)))


@contextmanager
def watch_queue(url: str, queue: Queue) -> Iterator[QueueWatch]:
    """Watch a queue for the length of this block."""
    with StorePortal(url) as portal:
        yield QueueWatch(portal, queue)
