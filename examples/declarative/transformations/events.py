"""The journal of every queue as a table that grows: each run adds what has happened since the last one."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table(comment="Every event of every queue, exactly once", partition_cols=["queue"])
def events() -> DataFrame:
    """A streaming table: Spark keeps the place in each journal in its checkpoint."""
    return spark.readStream.format("headrace").options(url=os.environ["HEADRACE_URL"], tenant="*").load()
