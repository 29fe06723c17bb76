"""Huey, on Redis or in a file of SQLite."""

import os
from datetime import UTC, datetime

from huey import RedisHuey, SqliteHuey

from benchmarks.peers.programs.harness import observe

_url = os.environ["PEER_URL"]
queue = SqliteHuey(filename=_url.removeprefix("sqlite:///")) if _url.startswith("sqlite") else RedisHuey(url=_url)


def count_job(number: int, text: str) -> None:
    """Count a job."""
    observe(number, text)


noop = queue.task()(count_job)


def send(number: int, text: str) -> None:
    """Send one job."""
    noop(number, text)


def send_later(number: int, text: str, due_ms: int) -> None:
    """Send a job that is due at an instant."""
    noop.schedule(args=(number, text), eta=datetime.fromtimestamp(due_ms / 1_000, UTC))


def work() -> None:
    """Run a consumer with threads."""
    queue.create_consumer(workers=int(os.environ.get("PEER_CAPACITY", "4")), worker_type="thread").run()
