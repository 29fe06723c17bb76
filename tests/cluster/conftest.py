"""Spark on executors of their own: local-cluster, and a standalone cluster of a Master and two Workers.

A test runs on local-cluster unless it is marked with `STANDALONE`; pytest runs those of a kind one after the other.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.spark_session import SHORT_RUN, session
from tests.support.process import wait_until
from tests.support.spark_servers import SparkMaster, SparkWorker

LOCAL_CLUSTER = "local-cluster[2,1,1024]"
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
EXECUTORS = {
    "spark.executor.extraJavaOptions": SHORT_RUN["spark.driver.extraJavaOptions"],
    "spark.executor.memory": "768m",
    # No task begins before both executors are there.
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="session", params=["local-cluster"])
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with ExitStack() as stack:
        if request.param == "standalone":
            master = stack.enter_context(standalone_cluster())
        else:
            master = LOCAL_CLUSTER
            stack.enter_context(spark_home(tmp_path_factory.mktemp("spark")))
        running = session("headrace cluster tests", master, **(SHORT_RUN | LOOPBACK | EXECUTORS))
        yield running
        running.stop()


@contextmanager
def standalone_cluster() -> Iterator[str]:
    """A Master and two Workers with a core each, by the address of the Master."""
    with SparkMaster().launch() as master, SparkWorker(master) as one, SparkWorker(master) as other:
        for worker in (one, other):
            worker.start_soon()
        for worker in (one, other):
            worker.wait_ready()
        wait_until(lambda: master.workers() == 2, "the Workers of the cluster")
        yield master.address


@contextmanager
def spark_home(home: Path) -> Iterator[None]:
    """Executors of local-cluster are started from SPARK_HOME and work in a folder of it, which must not be the
    installed package."""
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    before = os.environ.get("SPARK_HOME")
    os.environ["SPARK_HOME"] = str(home)
    try:
        yield
    finally:
        os.environ.pop("SPARK_HOME") if before is None else os.environ.update(SPARK_HOME=before)
