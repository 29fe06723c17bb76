"""Spark 4.1 beside 4.2 and newer: what stands in for what 4.1 lacks, and the sentence for anything older."""

import subprocess
import sys

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody on Spark writes it)

from headrace.model.errors import BadConfig
from headrace.pipeline.packages import check_version
from headrace.pipeline.source.compat import check_limit, latest_values, limit_options

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


def test_spark_without_limits_refuses_to_bound_batches_and_our_own_streams_leave_the_bound_out() -> None:
    with pytest.raises(BadConfig, match=r"maxEventsPerTrigger needs Spark 4\.2 or newer, and this is .*; leave it out"):
        check_limit(has_limits=False)

    assert limit_options(7, has_limits=False) == {}
    assert limit_options(7, has_limits=True) == {"maxEventsPerTrigger": "7"}


def test_the_latest_values_are_the_same_where_max_by_takes_no_count(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [("a", 1, "x"), ("a", 3, "z"), ("a", 2, None), ("b", 9, "w")], "k string, n int, v string"
    )

    both = [
        rows.groupBy("k").agg(latest_values(F.col("v"), F.col("n"), 2, has_count=has_count).alias("found"))
        for has_count in (False, True)
    ]

    assert [sorted(map(tuple, frame.collect())) for frame in both] == [[("a", ["z", None]), ("b", ["w"])]] * 2
