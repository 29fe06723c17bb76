"""Enqueues jobs for fleets, and reads from the journal how they ended."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.client.client import Client
from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from tests.pipeline.flows.fleet_app import app
from tests.pipeline.shared_stores import call_store
from tests.support.process import wait_until

FLEET = Queue("fleet")
TIMEOUT_S = 60
FINISHES = ("done", "dead", "cancelled")


def send(url: str, kind: str, *payloads: dict[str, Any], **options: Any) -> None:
    """Enqueue a job for each payload."""
    sender: Any = app.registry.find(kind)
    jobs: list[Job] = [sender.options(**options).job(**payload) for payload in payloads]

    async def enqueue(store: Store) -> None:
        await Client(store).enqueue_many(jobs)

    call_store(url, enqueue)


def journal(url: str, queue: Queue = FLEET) -> list[dict[str, Any]]:
    """All events, oldest first of each shard: event, id, kind, worker."""

    async def read(store: Store) -> list[dict[str, Any]]:
        found = []
        for shard in queue.all_shards():
            after, upto = 0, (await store.journal.bounds(shard)).last_seq
            while after < upto:
                for entry in await store.journal.read(shard, after, upto):
                    found += [
                        {"event": it.line.event, "id": it.line.id, "kind": it.line.kind, "worker": it.line.worker}
                        for it in entry.events(shard)
                    ]
                    after = entry.last_seq
        return found

    return call_store(url, read)


def event_counts(url: str, queue: Queue = FLEET) -> Counter[str]:
    """How often each event is in the journal."""
    return Counter(each["event"] for each in journal(url, queue))


def check_once(url: str, queue: Queue = FLEET) -> Counter[str]:
    """Assert that every enqueued job finished exactly once; return how."""
    events = journal(url, queue)
    enqueued = [each["id"] for each in events if each["event"] == "enqueued"]
    ended = [each["id"] for each in events if each["event"] in FINISHES]
    assert sorted(ended) == sorted(enqueued)
    return Counter(each["event"] for each in events if each["event"] in FINISHES)


@contextmanager
def once_marked(*marks: Path, act: Callable[[int], object]) -> Iterator[None]:
    """Within this block, act on the process that left the last mark, once all marks exist."""

    def wait() -> None:
        wait_until(lambda: all(mark.exists() for mark in marks), "marks", TIMEOUT_S)
        act(int(marks[-1].read_text()))

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()
