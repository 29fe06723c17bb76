"""A Spark with two executors of their own, each a process with one core, as on a cluster of one machine."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.spark_session import SHORT_RUN, session

MASTER = "local-cluster[2,1,1024]"
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
EXECUTORS = {
    "spark.executor.extraJavaOptions": SHORT_RUN["spark.driver.extraJavaOptions"],
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    home = tmp_path_factory.mktemp("spark")
    # Executors are started from SPARK_HOME and work in a folder of it, which must not be the installed package.
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    before = os.environ.get("SPARK_HOME")
    os.environ["SPARK_HOME"] = str(home)
    try:
        running = session("headrace cluster tests", MASTER, **(SHORT_RUN | LOOPBACK | EXECUTORS))
        yield running
        running.stop()
    finally:
        os.environ.pop("SPARK_HOME") if before is None else os.environ.update(SPARK_HOME=before)
