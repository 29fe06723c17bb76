"""Headrace, as users run it: `headrace worker` with an app whose job does nothing."""

import os
import sys
from datetime import UTC, datetime

from benchmarks.peers.programs.harness import Job, observe
from headrace import App

app = App(os.environ.get("PEER_URL"))


@app.job(queue="bench")
async def noop(number: int, text: str) -> None:
    """Count a job."""
    observe(number, text)


async def send(number: int, text: str) -> None:
    """Send one job."""
    await noop.enqueue(number, text)


async def send_many(jobs: list[Job]) -> None:
    """Send a thousand jobs in one call."""
    await noop.enqueue_many([noop.job(number, text) for number, text in jobs])


async def send_many_later(jobs: list[Job], due_ms: int) -> None:
    """Send jobs that are due at one instant."""
    later = noop.options(run_at=datetime.fromtimestamp(due_ms / 1_000, UTC))
    await noop.enqueue_many([later.job(number, text) for number, text in jobs])


def work() -> None:
    """Run the command line's worker."""
    from headrace.cli.main import main

    capacity = os.environ.get("PEER_CAPACITY")
    wish = ["--capacity", capacity] if capacity else []
    sys.argv = ["headrace", "worker", "benchmarks.peers.programs.ours:app", "--quiet", *wish]
    main()
