"""Measures what the Spark source spares a store: offsets over idle queues, one job of many, and jobs without payloads.

    python -m benchmarks.spark_source [--queues 5000] [--jobs 100000] [--json]

Spark is played, so that its start does not count: readers plan and read in this process. Redis is a server of its own.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from pyspark.sql.datasource import EqualTo
from redis import Redis

from headrace.model.job import Job
from headrace.model.names import Queue
from headrace.stores.contract.store import Store
from headrace.stores.open import open_store
from tests.pipeline.player import Checkpoint, playing
from tests.pipeline.shared_stores import Batch
from tests.support.redis_servers import RedisServer

T0 = 1_700_000_000_000
HOUR_MS = 3_600_000
JOBS = Queue("jobs")
PAYLOAD_BYTES = 2_000
CALL = 500
"""Jobs a call."""


class Streamed(Struct):
    """A stream over idle queues, of which one gets an event for each batch."""

    queues: int
    first_offset_bytes: int
    batch_bytes: int
    """Of the offsets that Spark keeps and shows of a batch: start, end and latest."""
    batch_cpu_ms: float
    restart_cpu_ms: float


class Read(Struct):
    """A read of jobs."""

    store: str
    what: str
    rows: int
    cpu_ms: float
    sent_mb: float | None = None
    """By the server."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--queues", type=int, default=5_000)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        streamed = stream(f"sqlite:///{Path(folder) / 'queues.db'}?profile=fast", options.queues)
        found = reads("SQLite", f"sqlite:///{Path(folder) / 'jobs.db'}?profile=fast", options.jobs, None)
    server = RedisServer()
    server.start()
    try:
        found += reads("Redis", server.url, options.jobs, Redis.from_url(server.url))
    finally:
        server.stop()
    if options.json:
        print(json.dumps({"streamed": to_builtins(streamed), "reads": to_builtins(found)}))
        return
    print(f"{streamed.queues:,} idle queues: {streamed.batch_bytes:,} bytes of offsets a batch", end=" ")
    print(f"(the first offset {streamed.first_offset_bytes:,}), {streamed.batch_cpu_ms:.0f} ms of CPU", end=" ")
    print(f"a batch, {streamed.restart_cpu_ms:.0f} ms a restart")
    for each in found:
        sent = "" if each.sent_mb is None else f", {each.sent_mb:.1f} MB sent"
        print(f"{each.store}, {each.what}: {each.rows:,} rows, {each.cpu_ms:.0f} ms of CPU{sent}")


def stream(url: str, count: int) -> Streamed:
    """Batches of one event each over so many queues that are idle."""

    async def fill(store: Store) -> None:
        for number in range(count):
            await store.jobs.enqueue([Job(queue=Queue(f"queue-{number}"), id="first", kind="k")], now_ms=T0)

    def wake(number: int) -> None:
        async def enqueue(store: Store) -> None:
            job = Job(queue=Queue("queue-0"), id=f"job-{number}", kind="k")
            await store.jobs.enqueue([job], now_ms=T0 + HOUR_MS + number)

        on(url, enqueue)

    on(url, fill)
    checkpoint, batches_ms = Checkpoint(), []
    with playing(checkpoint, url=url) as run:
        run.batch()
        for number in range(5):
            wake(number)
            batches_ms.append(cpu_ms(run.batch)[1])
        latest = len(json.dumps(run.reader.reportLatestOffset()))
    wake(5)
    with playing(checkpoint, url=url) as run:
        _, restart_ms = cpu_ms(run.batch)
    sizes = [len(end) for end in checkpoint.ends]
    return Streamed(count, sizes[0], sizes[-3] + sizes[-2] + latest, min(batches_ms[1:]), restart_ms)


def reads(store: str, url: str, count: int, server: "Redis | None") -> list[Read]:
    """One job by its id, and all jobs with their payloads and without."""

    async def fill(store: Store) -> None:
        payload = b'"' + b"x" * PAYLOAD_BYTES + b'"'
        for first in range(0, count, CALL):
            jobs = [Job(queue=JOBS, id=f"job-{first + n}", kind="k", payload=payload) for n in range(CALL)]
            await store.jobs.enqueue(jobs)

    on(url, fill)
    one = (EqualTo(("id",), f"job-{count // 2}"),)
    found = []
    for what, filters, columns in (
        ("one id", one, "id,state,payload"),
        ("all, with payloads", (), "id,state,kind,payload"),
        ("all, without payloads", (), "id,state,kind"),
    ):
        before = sent_bytes(server)
        batch, spent_ms = cpu_ms(partial(Batch, *filters, url=url, what="jobs", columns=columns))
        sent = None if server is None else (sent_bytes(server) - before) / 1e6
        found.append(Read(store, what, len(batch.rows), spent_ms, sent))
    return found


def sent_bytes(server: "Redis | None") -> int:
    info: Any = {} if server is None else server.info("stats")
    return int(info.get("total_net_output_bytes", 0))


def on(url: str, call: Callable[[Store], Awaitable[None]]) -> None:
    async def run() -> None:
        store = await open_store(url)
        try:
            await call(store)
        finally:
            await store.close()

    asyncio.run(run())


def cpu_ms(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and the CPU time that it took in this process."""
    begun = time.process_time()
    result = call()
    return result, (time.process_time() - begun) * 1_000


if __name__ == "__main__":
    main()
