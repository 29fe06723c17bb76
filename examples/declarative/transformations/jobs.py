"""The table of jobs, made by Headrace's own function: a table is a function from a DataFrame to a DataFrame."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from headrace.pipeline.tables.jobs import jobs as jobs_of

spark = SparkSession.active()


@dp.materialized_view(comment="One row for each generation of a job")
def jobs() -> DataFrame:
    """Made anew in each run, when `events` is complete."""
    return jobs_of(spark.table("events"))
