"""Jobs sent from Spark: tasks enqueue for each row, on the executors, with the app's blocking client."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import Row, SparkSession

from headrace import App, Queue
from headrace.model.job import State
from tests.support.stores import sqlite_url

ROWS = 500
PARTITIONS = 4
QUEUE = Queue("mail", "acme")


async def payloads(app: App) -> Counter[bytes]:
    """The payloads that wait in the queue."""
    client = await app.client()
    found: Counter[bytes] = Counter()
    cursor = None
    while True:
        page = await client.store.reads.list(QUEUE, State.WAITING, cursor=cursor, limit=100)
        records = [known.record for known in page.rows]
        found.update(record.payload for record in records if record is not None)
        cursor = page.cursor
        if cursor is None:
            return found


def test_tasks_of_a_spark_job_enqueue_every_row_once(spark: SparkSession, tmp_path: Path) -> None:
    """The function is one of the driver's own, which no executor can import: it travels with the task."""
    app = App(sqlite_url(tmp_path), tenant="acme")

    @app.job(queue="mail", max_attempts=3)
    def welcome(user_id: int, note: str = "") -> None: ...

    def one_by_one(rows: Iterable[Row]) -> None:
        for row in rows:
            # An id of its own makes a task that Spark runs again harmless.
            welcome.blocking.options(id=f"u-{row.id}").enqueue(row.id, note="spark")

    def at_once(rows: Iterable[Row]) -> None:
        welcome.blocking.enqueue_many({"user_id": row.id} for row in rows)

    spark.range(0, ROWS, 1, PARTITIONS).foreachPartition(one_by_one)
    spark.range(ROWS, 2 * ROWS, 1, PARTITIONS).foreachPartition(at_once)

    expected = [b'{"user_id":%d,"note":"spark"}' % number for number in range(ROWS)]
    expected += [b'{"user_id":%d}' % number for number in range(ROWS, 2 * ROWS)]
    assert asyncio.run(payloads(app)) == Counter(expected)
