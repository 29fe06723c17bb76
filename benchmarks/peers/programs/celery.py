"""Celery on Redis."""

import os
from datetime import UTC, datetime

from celery import Celery

from benchmarks.peers.programs.harness import observe

app = Celery("bench", broker=os.environ["PEER_URL"])
app.conf.update(
    task_acks_late=True,
    task_ignore_result=True,
    worker_prefetch_multiplier=64,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)


def count_job(number: int, text: str) -> None:
    """Count a job."""
    observe(number, text)


noop = app.task(name="noop")(count_job)


def send(number: int, text: str) -> None:
    """Send one job."""
    noop.delay(number, text)


def send_later(number: int, text: str, due_ms: int) -> None:
    """Send a job that is due at an instant."""
    noop.apply_async((number, text), eta=datetime.fromtimestamp(due_ms / 1_000, UTC))


def work() -> None:
    """Run a worker with a pool of threads, one per core, in one process."""
    app.worker_main(
        [
            "worker",
            "--pool=threads",
            "--without-gossip",
            "--without-mingle",
            "--without-heartbeat",
            "--loglevel=ERROR",
        ]
    )
