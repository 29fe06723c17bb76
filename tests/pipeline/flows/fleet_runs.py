"""Jobs for fleets, and what the journal says that became of them."""

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
from tests.pipeline.served import ask
from tests.support.process import wait_until

FLEET = Queue("fleet")
PATIENCE_S = 60
ENDS = ("done", "dead", "cancelled")


def send(url: str, kind: str, *payloads: dict[str, Any], **options: Any) -> None:
    """Enqueue a job for each payload."""
    sender: Any = app.registry.find(kind)
    jobs: list[Job] = [sender.options(**options).job(**payload) for payload in payloads]

    async def sent(store: Store) -> None:
        await Client(store).enqueue_many(jobs)

    ask(url, sent)


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

    return ask(url, read)


def counted(url: str, queue: Queue = FLEET) -> Counter[str]:
    """How often each event is in the journal."""
    return Counter(each["event"] for each in journal(url, queue))


def check_once(url: str, queue: Queue = FLEET) -> Counter[str]:
    """That every job that was taken in has ended exactly once; how they ended."""
    events = journal(url, queue)
    taken = [each["id"] for each in events if each["event"] == "enqueued"]
    ended = [each["id"] for each in events if each["event"] in ENDS]
    assert sorted(ended) == sorted(taken)
    return Counter(each["event"] for each in events if each["event"] in ENDS)


@contextmanager
def upon(*marks: Path, act: Callable[[int], object]) -> Iterator[None]:
    """Within this block, do something with the process that has left the last mark, once all of them are there."""

    def wait() -> None:
        wait_until(lambda: all(mark.exists() for mark in marks), "marks", PATIENCE_S)
        act(int(marks[-1].read_text()))

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()
