"""RQ on Redis."""

import logging
import os
from datetime import UTC, datetime

from redis import Redis
from rq import Queue, SimpleWorker

from benchmarks.peers.programs.harness import Job, observe

connection = Redis.from_url(os.environ["PEER_URL"])
queue = Queue(connection=connection)


def noop(number: int, text: str) -> None:
    """Count a job."""
    observe(number, text)


def send(number: int, text: str) -> None:
    """Send one job."""
    queue.enqueue(noop, number, text, result_ttl=0)


def send_many(jobs: list[Job]) -> None:
    """Send a thousand jobs in one pipeline."""
    queue.enqueue_many([Queue.prepare_data(noop, job, result_ttl=0) for job in jobs])


def send_later(number: int, text: str, due_ms: int) -> None:
    """Send a job that is due at an instant."""
    queue.enqueue_at(datetime.fromtimestamp(due_ms / 1_000, UTC), noop, number, text, result_ttl=0)


def work() -> None:
    """Run a worker that does not fork for each job, and its scheduler."""
    logging.getLogger("rq.worker").setLevel(logging.WARNING)
    SimpleWorker([queue], connection=connection).work(with_scheduler=True, logging_level="WARNING")
