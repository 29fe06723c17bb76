"""Writes on a Spark that runs failed tasks again, in processes of their own."""

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from headrace.model.claim import ClaimRequest
from headrace.model.names import Queue
from headrace.model.outcome import Done
from headrace.pipeline.sinks import enqueue
from headrace.stores.open import open_store
from tests.pipeline.shared_stores import SERVED, fresh_url

# Collected here under the `spark` of this folder.
from tests.pipeline.test_write_streams import (  # noqa: F401
    test_a_batch_that_failed_in_its_midst_is_exact_when_it_runs_again_in_six_tasks_instead_of_two,
)
from tests.pipeline.writes import counts_of, drain, events

MAIL = Queue("mail", shards=2)
ROWS = 2_000
TRIES_MAX = 100_000
"""Looks at a store, each of which takes a millisecond."""


@pytest.fixture(params=SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


def test_a_task_that_spark_runs_again_after_its_jobs_were_claimed_makes_no_blocked_job_and_counts_them_once(
    spark: SparkSession, url: str
) -> None:
    queue, half, tries_max = MAIL, ROWS // 2, TRIES_MAX  # executors cannot import this module

    async def work() -> int:
        """End jobs of both tasks: more than the half that one of them writes."""
        store = await open_store(url)
        ended = 0
        try:
            for _ in range(tries_max):
                nonce = secrets.token_hex(8)
                request = ClaimRequest(queues=[queue], worker="w", nonce=nonce, limit=1_000, lease_ms=60_000)
                claims = (await store.jobs.claim(request)).items
                ended += len(claims)
                # The last ones stay active.
                if ended > half:
                    return ended
                await store.jobs.settle([claim.settle(Done(), 1) for claim in claims])
        finally:
            await store.close()
        return ended

    def breaking(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        seen = 0
        for batch in batches:
            seen += batch.num_rows
            if seen == half and context.partitionId() == 1 and context.attemptNumber() == 0:
                assert asyncio.run(work()) > half
                raise RuntimeError("the task broke")
            yield batch

    # Payloads of some size: Spark hands rows over when a buffer is full.
    rows = spark.range(0, ROWS, 1, 2).selectExpr("'k' as kind", "struct(id, repeat('x', 2000) as text) as payload")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        written = enqueue(rows.mapInArrow(breaking, rows.schema), url, queue="mail", shards=2)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

    drain(url, MAIL)
    found = events(url, MAIL)
    assert counts_of(written) == {"created": ROWS}
    assert (found["enqueued"], found["updated"], found["blocked"], found["unblocked"]) == (ROWS, 0, 0, 0)
