"""Promises of secrets: the password of a URL is in no plan, progress, log, checkpoint or error, and in no repr."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict

from headrace.model.errors import HeadraceError
from headrace.model.names import Queue
from headrace.pipeline.source.source import HeadraceSource
from tests.pipeline.filled_journals import fill, fill_store
from tests.pipeline.logs import logging_to
from tests.pipeline.shared_stores import Batch, fresh_url
from tests.support.process import free_port
from tests.support.servers import PASSWORD, USER

MAIL = Queue("mail")


@pytest.fixture(scope="module", params=["redis", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store whose URL holds a user and a password; the PostgreSQL of tests takes any."""
    url = fresh_url(request.param, tmp_path_factory.mktemp("secrets"))
    url = url if PASSWORD in url else url.replace("headrace@", f"{USER}:{PASSWORD}@")
    assert f"{USER}:{PASSWORD}@" in url
    fill_store(url, fill(MAIL, 5))
    return url


def plans(frame: DataFrame) -> str:
    """All that Spark says of a query in any of its words, its generated code among them."""
    spark = frame.sparkSession
    explained: Any = spark.sparkContext._jvm
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    try:
        java: Any = frame.select("*")._jdf.queryExecution()  # planned anew, with code
        modes = ("simple", "extended", "codegen", "cost", "formatted")
        return "".join(explained.PythonSQLUtils.explainString(java, mode) for mode in modes) + repr(frame)
    finally:
        spark.conf.set("spark.sql.codegen.wholeStage", "false")


def streamed(spark: SparkSession, url: str, checkpoint: Path) -> str:
    """What a stream tells of itself: progress, plans and checkpoint."""
    frame = spark.readStream.format("headrace").option("url", url).load()
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert sum(each["numInputRows"] for each in query.recentProgress) == 5
    kept = "".join(path.read_text(errors="replace") for path in checkpoint.rglob("*") if path.is_file())
    return json.dumps(query.recentProgress, default=str) + plans(frame) + kept


def test_plans_views_progress_checkpoints_and_logs_do_not_hold_the_password(
    spark: SparkSession, url: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    view = f"TEMPORARY VIEW secret USING headrace OPTIONS (url '{url}', queue 'mail')"

    with logging_to(log, spark):
        frame = spark.read.format("headrace").option("url", url).load().where("event = 'enqueued' AND seq > 1")
        assert frame.count() == 4
        text = plans(frame) + streamed(spark, url, tmp_path / "checkpoint")
        text += str(spark.sql(f"EXPLAIN EXTENDED CREATE OR REPLACE {view}").collect())
        spark.sql(f"CREATE OR REPLACE {view}")
        text += str(spark.sql("DESCRIBE EXTENDED secret").collect()) + plans(spark.table("secret"))

    logged = log.read_text(errors="replace")
    assert "INFO MicroBatchExecution" in logged
    assert PASSWORD not in text
    assert PASSWORD not in logged


def test_an_error_through_spark_does_not_hold_the_password(spark: SparkSession, url: str) -> None:
    away = f"{url.partition('@')[0]}@127.0.0.1:{free_port()}"

    with pytest.raises(PySparkException, match="cannot be reached") as refused:
        spark.read.format("headrace").option("url", away).load().collect()

    assert PASSWORD not in str(refused.value)
    assert PASSWORD not in repr(refused.value)


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        (lambda url: {"url": url, "queue": "gone"}, "there is no queue 'gone'"),
        (lambda url: {"url": url, "colour": "red"}, "has no option 'colour'"),
        (lambda url: {"url": url.replace(USER + ":", "stranger:", 1)}, "stranger|does not take the user"),
        (lambda url: {"url": url.replace("127.0.0.1:", "127.0.0.1:x")}, "port"),
        (lambda url: {"url": f"{url}{'&' if '?' in url else '?'}password={PASSWORD}&hue=1"}, "option"),
        (lambda url: {"url": f"x{url}"}, "no store for scheme"),
    ],
    ids=["unknown queue", "unknown option", "unknown user", "bad port", "unknown setting", "unknown scheme"],
)
def test_a_refusal_does_not_hold_the_password(url: str, broken: Callable[[str], dict[str, str]], sentence: str) -> None:
    with pytest.raises(HeadraceError, match=sentence) as refused:
        Batch(**broken(url))

    texts = [f"{error} {error!r}" for error in chain(refused.value)]
    assert PASSWORD not in "".join(texts)


def chain(error: BaseException | None) -> list[BaseException]:
    """An error and what it came from: a traceback shows them all."""
    shown = None if error is None or error.__suppress_context__ else error.__context__
    return [] if error is None else [error, *chain(error.__cause__ or shown)]


def test_readers_writers_and_parts_do_not_show_the_password(url: str) -> None:
    source: Any = HeadraceSource(CaseInsensitiveDict({"url": url}))
    reader, stream = source.reader(source.schema()), source.streamReader(source.schema())

    parts = reader.partitions()
    begin = stream.initialOffset()
    end = stream.latestOffset(begin, stream.getDefaultReadLimit())
    parts += stream.partitions(begin, end)
    stream.stop()

    assert len(parts) == 2
    for each in (reader, stream, source, *parts):
        assert PASSWORD not in repr(each) + str(each)
    assert PASSWORD not in repr(vars(reader)) + repr(vars(stream)) + repr([vars(part) for part in parts])
    assert PASSWORD not in json.dumps([begin, end])
