"""Spark 4.1 beside 4.2 and newer: what stands in for what 4.1 lacks, and the sentence for anything older."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)
from pyspark.sql.datasource import CaseInsensitiveDict

from headrace.model.errors import BadConfig
from headrace.model.names import Queue
from headrace.pipeline.history.run import follow_history
from headrace.pipeline.packages import check_version
from headrace.pipeline.source.compat import HAS_4_2, check_limit, latest_values, limit_options
from headrace.pipeline.source.source import HeadraceSource
from headrace.pipeline.stats.run import follow_stats
from tests.pipeline.filled_journals import fill, fill_store
from tests.pipeline.shared_stores import fresh_url

# As 4.0 is: an older number, and without the classes that came with 4.1.
OLD = """
import pyspark, pyspark.sql.datasource as datasource
pyspark.__version__ = "4.0.5"
del datasource.DataSourceStreamArrowWriter, datasource.EqualTo
from headrace.model.errors import BadConfig
try:
    import {module}
    from {module} import {name}
except BadConfig as error:
    print(error)
"""
MAIL = Queue("mail")
SENTENCE = "the pipeline needs Spark 4.1 or newer, and this is 4.0.5; pip install -U 'headrace[spark]'"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("headrace.pipeline", "follow_history"),
        ("headrace.pipeline", "map_rows"),
        ("headrace.pipeline.spark_session", "session"),
        ("pyspark_headrace", "DefaultSource"),
    ],
)
def test_spark_4_0_is_refused_with_one_sentence(module: str, name: str) -> None:
    program = OLD.format(module=module, name=name)

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (run.stdout.strip(), run.stderr) == (SENTENCE, "")


@pytest.mark.parametrize("version", ["4.1.0", "4.2.1", "4.10.0.dev1", "5.0.0"])
def test_spark_4_1_and_newer_are_taken(version: str) -> None:
    check_version(version)


def test_spark_without_bounds_refuses_one_that_was_asked_for_and_leaves_the_default_out() -> None:
    for ask in (check_limit, partial(limit_options, 7, 9)):
        with pytest.raises(BadConfig, match=r"a bound of batches .* needs Spark 4\.2 or newer, and .*; leave it out"):
            ask(has_limits=False)

    assert limit_options(None, 9, has_limits=False) == {}
    assert limit_options(None, 9, has_limits=True) == {"maxEventsPerTrigger": "9"}
    assert limit_options(7, 9, has_limits=True) == {"maxEventsPerTrigger": "7"}


@pytest.mark.skipif(HAS_4_2, reason="newer Sparks bound batches")
def test_spark_4_1_refuses_a_bound_of_history_and_statistics_and_begins_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    url = fresh_url("sqlite", tmp_path)

    for follow in (follow_history, follow_stats):
        with pytest.raises(BadConfig, match=r"--events-max\) needs Spark 4\.2 or newer, and this is 4\.1"):
            follow(spark, url, tmp_path / "table", once=True, events_max=5)

    assert not (tmp_path / "table").exists()


def test_the_latest_values_are_the_same_where_max_by_takes_no_count(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("a", 1, "x"), ("a", 3, "z"), ("a", 2, None), ("b", 9, "w")], "k string, n int, v string"
    )

    both = [
        rows.groupBy("k").agg(latest_values(F.col("v"), F.col("n"), 2, has_count=has_count).alias("found"))
        for has_count in (False, HAS_4_2)
    ]

    assert [sorted(map(tuple, frame.collect())) for frame in both] == [[("a", ["z", None]), ("b", ["w"])]] * 2


class Query:
    """A query as Spark 4.1 runs it: it gives no start to `latestOffset`, and shows a restart by an empty batch."""

    def __init__(self, url: str, offset: Any = None) -> None:
        source = HeadraceSource(CaseInsensitiveDict({"url": url}))
        self.reader: Any = source.streamReader(source.schema())
        self.offset = offset
        if offset is not None:
            assert self.reader.partitions(offset, offset) == []

    def batch(self) -> list[int]:
        """The numbers of the events in the next batch."""
        end = self.reader.latestOffset()
        begin = self.reader.initialOffset() if self.offset is None else self.offset
        parts = [] if end == begin else self.reader.partitions(begin, end)
        self.offset = end
        return [seq for part in parts for batch in self.reader.read(part) for seq in batch.column("seq").to_pylist()]


def test_a_query_of_spark_4_1_goes_on_behind_its_checkpoint(tmp_path: Path) -> None:
    url = fresh_url("sqlite", tmp_path)
    fill_store(url, fill(MAIL, 3))
    first = Query(url)
    batches = [first.batch()]
    fill_store(url, fill(MAIL, 2, since=3))
    batches.append(first.batch())
    first.reader.stop()
    fill_store(url, fill(MAIL, 2, since=5))

    second = Query(url, first.offset)
    batches += [second.batch(), second.batch()]
    second.reader.stop()

    assert batches == [[1, 2, 3], [4, 5], [6, 7], []]


def test_spark_4_1_must_not_plan_a_batch_before_it_shows_where_the_checkpoint_ends(tmp_path: Path) -> None:
    url = fresh_url("sqlite", tmp_path)
    fill_store(url, fill(MAIL, 3))
    first = Query(url)
    first.batch()
    first.reader.stop()
    fill_store(url, fill(MAIL, 1, since=3))
    second = Query(url)
    second.batch()

    with pytest.raises(BadConfig, match=r"triggerAvailableNowWrapper\.enabled is true, .*; set it to false"):
        second.reader.partitions(first.offset, first.offset)
    assert second.reader.partitions(second.offset, second.offset) == []
    second.reader.stop()
