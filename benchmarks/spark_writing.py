"""Writing jobs with Spark, beside the client's own way to send many: rows a second, and the same rows once more."""

import time

from pyspark.sql import DataFrame, SparkSession

from benchmarks.load import PAYLOAD
from benchmarks.running import Say
from benchmarks.spark_filling import JOURNAL_BYTES_MAX, on_store
from headrace.client.client import Client
from headrace.model.names import Queue
from headrace.pipeline.sinks import enqueue
from headrace.stores.contract.store import Store

TENANT = "writes"
SENT_AT_ONCE = 50_000
"""Jobs of one call of the client, which sends them by the thousand: their handles are let go together."""
KIND = "send"


def frame_of(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    """Rows with a kind, a payload of 100 bytes and a key."""
    numbered = spark.range(0, rows, 1, partitions)
    return numbered.selectExpr(f"'{KIND}' AS kind", f"'{PAYLOAD.decode()}' AS payload", "concat('key-', id) AS key")


def client_rate(url: str, rows: int, say: Say) -> float:
    """Rows a second of a client that sends as many jobs with keys."""
    queue = Queue("client", TENANT)

    async def send(store: Store) -> float:
        await store.queues.configure(queue, {"journal_bytes_max": JOURNAL_BYTES_MAX})
        client = Client(store, tenant=TENANT, queue=queue)
        payload = {"user_id": 42, "text": "x" * 75}
        begun = time.perf_counter()
        for start in range(0, rows, SENT_AT_ONCE):
            numbers = range(start, min(start + SENT_AT_ONCE, rows))
            handles = await client.enqueue_many(
                client.job(KIND, payload, idempotency_key=f"key-{number}") for number in numbers
            )
            assert all(handle.ok for handle in handles)
        return rows / (time.perf_counter() - begun)

    rate = on_store(url, send)
    say(f"the client: {rate:,.0f} rows/s")
    return rate


def write_rates(spark: SparkSession, url: str, rows: int, threads: int, say: Say) -> dict[str, float]:
    """Rows a second of a write by so many tasks, and of the same write once more, which must make nothing."""
    queue = Queue(f"spark-{threads}", TENANT)

    async def prepare(store: Store) -> None:
        await store.queues.configure(queue, {"journal_bytes_max": JOURNAL_BYTES_MAX})

    on_store(url, prepare)
    enqueue(frame_of(spark, 100, threads), url, tenant=TENANT, queue=f"warm-{threads}")
    found: dict[str, float] = {}
    for what, wanted in (("first", rows), ("again", 0)):
        begun = time.perf_counter()
        written = enqueue(frame_of(spark, rows, threads), url, tenant=TENANT, queue=queue.name, name=queue.name)
        found[what] = rows / (time.perf_counter() - begun)
        assert written.created == wanted, f"{written.created:,} jobs were made of {rows:,} rows, {wanted:,} were due"
        say(f"{threads} at once, {what}: {found[what]:,.0f} rows/s, {written.created:,} created")
    return found
