"""Runs Spark for a command: quiet, gone when the command ends, and with our own words when something is wrong."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.pipeline.said import said_by_us
from headrace.pipeline.start import session


@contextmanager
def running(app_name: str, master: str, conf: Mapping[str, str], *, quiet: bool = True) -> Iterator[SparkSession]:
    """A session for this block; one that runs already is taken and left running.

    With `quiet` Spark itself says nothing, not even its errors: what went wrong is raised, as an error of ours where
    it is one.
    """
    is_ours = SparkContext._active_spark_context is None
    spark = session(app_name, master, **conf)
    if is_ours and quiet:
        spark.sparkContext.setLogLevel("OFF")
    try:
        with our_words():
            yield spark
    finally:
        if is_ours:
            spark.stop()


@contextmanager
def our_words() -> Iterator[None]:
    """Within this block, an error of Spark that tells of one of ours is raised as that: Spark's is a page around it."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        told = said_by_us(error)
        if told is None:
            raise
        raise told from None
