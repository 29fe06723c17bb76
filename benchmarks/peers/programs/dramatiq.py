"""Dramatiq on Redis."""

import os
import threading
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from benchmarks.peers.programs.harness import observe

broker = RedisBroker(url=os.environ["PEER_URL"])
dramatiq.set_broker(broker)


def count_job(number: int, text: str) -> None:
    """Count a job."""
    observe(number, text)


noop = dramatiq.actor(count_job)


def send(number: int, text: str) -> None:
    """Send one job."""
    noop.send(number, text)


def send_later(number: int, text: str, due_ms: int) -> None:
    """Send a job that is due at an instant, which is told as a delay."""
    noop.send_with_options(args=(number, text), delay=max(due_ms - int(time.time() * 1_000), 0))


def work() -> None:
    """Run a worker with the eight threads of the command line."""
    dramatiq.Worker(broker, worker_threads=8).start()
    threading.Event().wait()
