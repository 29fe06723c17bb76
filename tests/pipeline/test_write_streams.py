"""Promises of streams that write: exact after a failure in mid-batch, however the batch is cut when it runs again."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.model.names import Queue
from headrace.pipeline.source.sink.result import Written
from headrace.stores.open import open_store
from tests.pipeline.shared_stores import ONE_OF_SERVED, fresh_url
from tests.pipeline.writes import REPORT, counts_of, drain, events, reported
from tests.support.servers import PASSWORD

MAIL = Queue("mail", shards=2)
ROWS = 2_000
SECONDS_MAX = 120


@pytest.fixture(params=ONE_OF_SERVED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return fresh_url(request.param, tmp_path)


def put_file(folder: Path, numbers: range) -> None:
    """Rows that a stream finds as one file."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"kind": "k", "payload": f'{{"n":{number}}}'}) for number in numbers]
    (folder / f"{numbers.start}.json").write_text("\n".join(lines))


def rows_of(spark: SparkSession, folder: Path) -> DataFrame:
    """A stream of the files of a folder, one a batch."""
    reader = spark.readStream.schema("kind string, payload string").option("maxFilesPerTrigger", "1")
    return reader.json(str(folder))


def start(frame: DataFrame, url: str, checkpoint: Path, **options: str) -> StreamingQuery:
    settings = {"url": url, "queue": "mail", "shards": "2", "report": REPORT, "checkpointLocation": str(checkpoint)}
    writer = frame.writeStream.format("headrace").options(**(settings | options))
    return writer.trigger(availableNow=True).start()


def written(url: str, query: StreamingQuery, batch: int) -> Written:
    return reported(url, f"{query.id}/{batch}")


def broken(url: str, frame: DataFrame) -> DataFrame:
    """The frame, whose second task fails as soon as the first has written its half."""
    queue, half, seconds_max = MAIL, ROWS // 2, SECONDS_MAX // 2  # executors cannot import this module

    async def half_is_written() -> bool:
        store, begun = await open_store(url), time.monotonic()
        try:
            while time.monotonic() < begun + seconds_max:
                if (await store.queues.counts(queue)).waiting >= half:
                    return True
        finally:
            await store.close()
        return False

    def breaking(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            context = TaskContext.get()
            if context is not None and context.partitionId() == 1:
                raise RuntimeError(
                    "the task broke" if asyncio.run(half_is_written()) else "the other task wrote nothing"
                )
            yield batch

    return frame.mapInArrow(breaking, frame.schema)


def test_a_batch_that_failed_in_its_midst_is_exact_when_it_runs_again_in_six_tasks_instead_of_two(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    folder, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    put_file(folder, range(ROWS))
    failed = start(broken(url, rows_of(spark, folder).repartition(2)), url, checkpoint)
    with pytest.raises(StreamingQueryException, match="the task broke"):
        failed.awaitTermination(SECONDS_MAX)
    drained = drain(url, MAIL)

    put_file(folder, range(ROWS - 10, ROWS + 5))
    again = start(rows_of(spark, folder).repartition(6), url, checkpoint)
    assert again.awaitTermination(SECONDS_MAX)
    other = start(rows_of(spark, folder), url, tmp_path / "other")
    assert other.awaitTermination(SECONDS_MAX)

    assert (drained, drain(url, MAIL)) == (ROWS // 2, ROWS // 2 + 5)
    assert events(url, MAIL)["enqueued"] == ROWS + 5
    assert counts_of(written(url, again, 0)) == {"created": ROWS}
    assert counts_of(written(url, again, 1)) == {"created": 5, "duplicate": 10}
    assert [counts_of(written(url, other, batch)) for batch in (0, 1)] == [{"duplicate": ROWS}, {"duplicate": 15}]
    assert PASSWORD not in str(again.lastProgress)


def test_refused_rows_fail_the_query_with_a_sentence_and_other_modes_than_append_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    url, folder = fresh_url("sqlite", tmp_path), tmp_path / "rows"
    put_file(folder, range(3))
    frame = rows_of(spark, folder).selectExpr("kind", "if(payload like '%1%', 'text', payload) as payload")

    query = start(frame, url, tmp_path / "checkpoint")
    with pytest.raises(
        StreamingQueryException, match=r"of 3 rows 2 created, 1 refused \(bad_payload 1\); for example:"
    ):
        query.awaitTermination(SECONDS_MAX)

    assert counts_of(written(url, query, 0)) == {"created": 2, "refused": {"bad_payload": 1}}
    complete = frame.groupBy("kind").count().selectExpr("kind").writeStream.format("headrace").outputMode("complete")
    options = {"url": url, "queue": "mail", "checkpointLocation": str(tmp_path / "other")}
    with pytest.raises(StreamingQueryException, match=r"added, never overwritten; write with .*outputMode\('append'\)"):
        complete.options(**options).trigger(availableNow=True).start().awaitTermination(SECONDS_MAX)
