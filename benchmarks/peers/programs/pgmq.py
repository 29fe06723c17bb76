"""pgmq, a message queue of functions in PostgreSQL, read and deleted 100 at a time."""

import os
from datetime import UTC, datetime

from pgmq import PGMQueue
from pgmq.install import install_pgmq_from_sql

from benchmarks.peers.programs.harness import Job, observe

QUEUE = "bench"
_url = os.environ["PEER_URL"]
queue = PGMQueue(conn_string=_url, init_extension=False)


def setup() -> None:
    """Install its functions, and make the queue."""
    install_pgmq_from_sql(dsn=_url)
    queue.create_queue(QUEUE)


def send(number: int, text: str) -> None:
    """Send one message."""
    queue.send(QUEUE, {"number": number, "text": text})


def send_many(jobs: list[Job]) -> None:
    """Send a thousand messages in one call."""
    queue.send_batch(QUEUE, [{"number": number, "text": text} for number, text in jobs])


def send_many_later(jobs: list[Job], due_ms: int) -> None:
    """Send messages that are visible from one instant on."""
    due = datetime.fromtimestamp(due_ms / 1_000, UTC)
    queue.send_batch(QUEUE, [{"number": number, "text": text} for number, text in jobs], delay=due)


def work() -> None:
    """Read, count and delete, for ever: there is no worker, so this is the smallest one."""
    while True:
        messages = queue.read_with_poll(QUEUE, vt=30, qty=100, max_poll_seconds=5, poll_interval_ms=100)
        for message in messages:
            observe(message.message["number"], message.message["text"])
        if messages:
            queue.delete_batch(QUEUE, [message.msg_id for message in messages])
